"""Files: what is written comes back, and every broken file gets its own sentence."""

import gzip
import lzma
import os
import pickle
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from truerisk.data import load
from truerisk.data.readers import IDX_TYPES, read_cifar10_binary, read_idx, read_idx_pair, read_npz
from truerisk.errors import TrueriskError

PACK = {"raw": bytes, "gz": gzip.compress, "xz": lzma.compress}
KINDS = {np.dtype(text): code for code, text in IDX_TYPES.items()}


def idx_bytes(array, dtype=">u1"):
    """A second writer of IDX, independent of the one in the package."""
    array = np.asarray(array)
    header = bytes([0, 0, KINDS[np.dtype(dtype)], array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(dtype).tobytes()


@pytest.mark.parametrize("pack", PACK)
@pytest.mark.parametrize("dtype", IDX_TYPES.values())
@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 4), (2, 3, 2, 2)])
def test_idx_round_trip(tmp_path, pack, dtype, shape):
    array = (np.arange(np.prod(shape)) - (0 if dtype == ">u1" else 5)).reshape(shape)
    path = tmp_path / "misleading.name"  # the content decides, not the ending
    path.write_bytes(PACK[pack](idx_bytes(array, dtype)))
    found = read_idx(path)
    assert found.dtype == np.dtype(dtype).newbyteorder("=")
    assert np.array_equal(found, array)
    assert found.flags.writeable


IMAGES = idx_bytes(np.arange(60 * 12).reshape(60, 4, 3) % 256)
PACKED = gzip.compress(IMAGES)
BROKEN = {
    "empty": (b"", "is empty"),
    "empty gzip": (gzip.compress(b""), "is empty"),
    "truncated header": (IMAGES[:9], "ends inside its header"),
    "truncated magic": (b"\0\0", "ends inside its header"),
    "truncated": (IMAGES[:-5], "is truncated: its header promises 720 bytes of data, it holds 715"),
    "too long": (IMAGES + b"x", "longer than it says"),
    "wrong magic": (b"\x89PNG\r\n\x1a\n" + IMAGES, "not an IDX file"),
    "unknown number type": (b"\0\0\x0a\x01" + IMAGES, "not an IDX file"),
    "no dimensions": (b"\0\0\x08\0", "not an IDX file"),
    "no examples": (idx_bytes(np.zeros((0, 2, 2))), "holds no examples"),
    "huge header": (b"\0\0\x08\x03" + struct.pack(">3I", 2**31, 2**31, 2**31) + b"abc", "promises 9,903,"),
    "huge header in gzip": (
        gzip.compress(b"\0\0\x0e\x02" + struct.pack(">2I", 2**20, 2**20) + b"abc"),
        "is truncated",
    ),
    "truncated gzip": (PACKED[:-20], "cannot be read"),
    "gzip with a wrong checksum": (PACKED[:-8] + b"\0\0\0\0" + PACKED[-4:], "cannot be read"),
    "bad gzip stream": (PACKED[:15] + b"\xff" * 40, "cannot be read"),
    "bad gzip header": (b"\x1f\x8b" + b"\xee" * 30, "cannot be read"),
    "truncated xz": (lzma.compress(IMAGES)[:-20], "cannot be read"),
    "bad xz": (b"\xfd7zXZ\0" + b"\xee" * 30, "cannot be read"),
}


@pytest.mark.parametrize(("content", "sentence"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_idx_files_get_their_sentence(tmp_path, content, sentence):
    path = tmp_path / "images"
    path.write_bytes(content)
    tracemalloc.start()
    with pytest.raises(TrueriskError, match=sentence) as caught:
        read_idx(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000  # xz itself takes 9 MB; a header cannot make the reader allocate more
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_file_and_folder_in_place_of_a_file(tmp_path):
    with pytest.raises(TrueriskError, match="does not exist"):
        read_idx(tmp_path / "nothing")
    with pytest.raises(TrueriskError, match="is not a file"):
        read_idx(tmp_path)


def test_images_and_labels_must_belong_together(tmp_path):
    images, labels, fewer = tmp_path / "images", tmp_path / "labels", tmp_path / "fewer"
    images.write_bytes(IMAGES)
    labels.write_bytes(idx_bytes(np.arange(60) % 10))
    fewer.write_bytes(idx_bytes(np.arange(59) % 10))
    X, y = read_idx_pair(images, labels)
    assert X.shape == (60, 1, 4, 3)
    assert y.shape == (60,)
    with pytest.raises(TrueriskError, match="looks like a labels file"):
        read_idx_pair(labels, labels)
    with pytest.raises(TrueriskError, match="not labels"):
        read_idx_pair(images, images)
    with pytest.raises(TrueriskError, match=r"60 images but .* 59 labels"):
        read_idx_pair(images, fewer)


def cifar_records(n, first_label=0):
    records = np.random.default_rng(first_label).integers(0, 256, size=(n, 3073), dtype=np.uint8)
    records[:, 0] = (np.arange(n) + first_label) % 10
    return records


@pytest.mark.parametrize("pack", PACK)
def test_cifar_batches_are_read_in_order(tmp_path, pack):
    one, two = cifar_records(6), cifar_records(5, first_label=6)
    for name, records in (("one", one), ("two", two)):
        (tmp_path / name).write_bytes(PACK[pack](records.tobytes()))
    X, y = read_cifar10_binary([tmp_path / "one", tmp_path / "two"])
    assert X.shape == (11, 3, 32, 32)
    assert y.tolist() == [*range(10), 0]
    # Byte 1 + 1024 c + 32 r + k of a record is the pixel in colour c, row r, column k.
    assert X[7, 2, 5, 3] == two[1, 1 + 2 * 1024 + 5 * 32 + 3]


def with_label_11():
    records = cifar_records(3)
    records[1, 0] = 11
    return records.tobytes()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"", "is empty"), (cifar_records(2).tobytes()[:-1], "truncated"), (with_label_11(), "label 11")],
)
def test_broken_cifar_files_get_their_sentence(tmp_path, content, sentence):
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(content)
    with pytest.raises(TrueriskError, match=sentence) as caught:
        read_cifar10_binary([path])
    assert str(path) in str(caught.value)
    with pytest.raises(TrueriskError, match="No CIFAR-10 batch"):
        read_cifar10_binary([])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_round_trip(tmp_path, save):
    X, y = np.random.default_rng(0).normal(size=(30, 5)), np.arange(30) % 3
    save(tmp_path / "a.npz", X=X, y=y)
    save(tmp_path / "b.npz", X=X, y=y, classes=7)
    assert read_npz(tmp_path / "a.npz").classes is None
    assert np.array_equal(read_npz(tmp_path / "a.npz").X, X)
    assert read_npz(tmp_path / "b.npz").classes == 7
    data = load(tmp_path / "b.npz")
    assert data.classes == 7
    assert load(data.source).sha256 == data.sha256


class Payload:
    """Makes a folder as soon as it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("key", ["X", "y", "classes"])
def test_a_pickle_inside_an_npz_runs_nothing(tmp_path, key):
    mark, path = tmp_path / "mark", tmp_path / "evil.npz"
    arrays = {"X": np.ones((20, 2)), "y": np.arange(20) % 2, "classes": np.int64(2)}
    np.savez(path, **{**arrays, key: np.array([Payload(mark)] * 20, dtype=object)})
    with pytest.raises(TrueriskError, match="never loaded because they can run code"):
        load(path)
    assert not mark.exists()


def test_a_bare_pickle_named_npz_runs_nothing(tmp_path):
    mark, path = tmp_path / "mark", tmp_path / "evil.npz"
    path.write_bytes(pickle.dumps(Payload(mark)))
    with pytest.raises(TrueriskError, match="not a readable npz file"):
        load(path)
    assert not mark.exists()
    pickle.loads(path.read_bytes())
    assert mark.exists()  # so the payload would have worked


def test_other_broken_npz_files_get_their_sentence(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, X=np.ones((20, 50)), labels=np.arange(20))
    with pytest.raises(TrueriskError, match="holds X, labels but not y"):
        load(path)
    np.savez(path, X=np.ones((20, 50)), y=np.arange(20) % 2, classes=np.array([1.5]))
    with pytest.raises(TrueriskError, match="must be one whole number"):
        load(path)
    np.savez(path, X=np.ones((20, 50)), y=np.arange(20) % 2)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(TrueriskError, match="not a readable npz file"):
        load(path)
    path.write_bytes(content.replace(np.float64(1).tobytes() * 3, b"\1" * 24, 1))
    with pytest.raises(TrueriskError, match=r"not a readable npz file .*CRC"):
        load(path)
    path.write_bytes(b"")
    with pytest.raises(TrueriskError, match="is empty"):
        load(path)


def test_an_npz_header_cannot_make_the_reader_allocate(tmp_path):
    path = tmp_path / "huge.npz"
    text = "{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,)}".ljust(117) + "\n"
    member = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", member + b"\0" * 80)
        archive.writestr("y.npy", member)
    with pytest.raises(TrueriskError, match="more than the file can hold"):
        load(path)
