"""CIFAR-10's binary batches: order, layout, and broken files."""

import gzip
import lzma

import numpy as np
import pytest

from truerisk.data.formats.cifar import read_cifar10_binary
from truerisk.errors import TrueriskError

PACK = {"raw": bytes, "gz": gzip.compress, "xz": lzma.compress}


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
    # Byte 1 + 1024 c + 32 r + k of a record is the pixel in color c, row r, column k.
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
    with pytest.raises(TrueriskError, match="no CIFAR-10 batch"):
        read_cifar10_binary([])
