"""IDX files: what is written comes back, and every broken file gets its own sentence."""

import gzip
import lzma
import struct
import tracemalloc

import numpy as np
import pytest

from truerisk.data.formats.idx import TYPES, read_idx, read_idx_pair
from truerisk.errors import TrueriskError

PACK = {"raw": bytes, "gz": gzip.compress, "xz": lzma.compress}
KINDS = {np.dtype(text): code for code, text in TYPES.items()}


def idx_bytes(array, dtype=">u1"):
    """A second writer of IDX, independent of the one in the package."""
    array = np.asarray(array)
    header = bytes([0, 0, KINDS[np.dtype(dtype)], array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(dtype).tobytes()


@pytest.mark.parametrize("pack", PACK)
@pytest.mark.parametrize("dtype", TYPES.values())
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


def test_the_copy_in_floats_counts(tmp_path, monkeypatch):
    path = tmp_path / "images"
    path.write_bytes(gzip.compress(idx_bytes(np.zeros((10, 10)))))
    monkeypatch.setattr("truerisk.data.formats.reading.MAX_BYTES", 500)
    with pytest.raises(TrueriskError, match="needs 900 bytes, more than 500"):
        read_idx(path)
