"""Folders of images: classes by folder, one size, gray or color, and nothing unsafe is opened."""

import os
import sys
import warnings

import numpy as np
import pytest

from truerisk.data import load, load_inputs
from truerisk.errors import TrueriskError

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")


def picture(value=0, mode="L", size=(6, 4)):
    """An image whose pixels differ from place to place; width 6, height 4."""
    shape = (size[1], size[0]) if mode == "L" else (size[1], size[0], 3)
    pixels = (np.arange(np.prod(shape)).reshape(shape) + value) % 256
    return Image.fromarray(pixels.astype(np.uint8))


def fill(folder, classes=("cat", "dog"), n=6, ending="png", **options):
    for number, name in enumerate(classes):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(n):
            picture(10 * number + i, **options).save(folder / name / f"{i:02}.{ending}")
    return folder


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("RGB", 3)])
@pytest.mark.parametrize("ending", ["png", "bmp", "tif", "PNG"])
def test_pixels_come_back(tmp_path, notes, mode, channels, ending):
    data = load(fill(tmp_path / "pets", mode=mode, ending=ending))
    assert data.X.shape == (12, channels, 4, 6)
    assert data.y.tolist() == [0] * 6 + [1] * 6
    assert (data.class_names, data.classes) == (("cat", "dog"), 2)
    assert (data.name, data.source) == ("pets", "pets")
    expected = np.atleast_3d(np.asarray(picture(13, mode=mode))).transpose(2, 0, 1) / np.float32(255)
    assert np.array_equal(data.X[9], expected)
    assert "classes are numbered in sorted order: cat = 0, dog = 1." in notes()


@pytest.mark.parametrize("ending", ["jpg", "webp", "gif", "ppm"])
def test_other_formats(tmp_path, ending):
    assert len(load(fill(tmp_path / "pets", mode="RGB", ending=ending))) == 12


def test_one_color_makes_all_colored(tmp_path):
    fill(tmp_path)
    picture(mode="RGB").save(tmp_path / "dog" / "99.png")
    picture().convert("P").save(tmp_path / "dog" / "98.png")
    picture().convert("1").save(tmp_path / "dog" / "97.png")
    picture(mode="RGB").convert("RGBA").save(tmp_path / "dog" / "96.png")
    data = load(tmp_path)
    assert data.X.shape == (16, 3, 4, 6)
    assert np.array_equal(data.X[0][0], data.X[0][2])


def test_train_and_test_parts_number_classes_alike(tmp_path, monkeypatch):
    fill(tmp_path / "pets" / "train", classes=("ant", "cat", "dog"))
    fill(tmp_path / "pets" / "test", classes=("cat", "dog"))
    train, test = load(tmp_path / "pets"), load(f"{tmp_path / 'pets'}:test")
    assert train.class_names == test.class_names == ("ant", "cat", "dog")
    assert test.y.tolist() == [1] * 6 + [2] * 6
    assert (test.name, test.source) == ("pets:test", "pets:test")
    monkeypatch.chdir(tmp_path)
    assert load(test.source).sha256 == test.sha256
    fill(tmp_path / "pets" / "test", classes=("emu",))
    with pytest.raises(TrueriskError, match="a class emu that the train part lacks"):
        load(f"{tmp_path / 'pets'}:test")
    (tmp_path / "pets" / "train").rename(tmp_path / "moved")
    with pytest.raises(TrueriskError, match=r"holds only a test part; load it as .*pets:test"):
        load(tmp_path / "pets")
    with pytest.raises(TrueriskError, match="holds neither"):
        load(f"{tmp_path / 'moved'}:test")


def test_classes_may_be_called_train(tmp_path):
    assert load(fill(tmp_path, classes=("bus", "train"))).class_names == ("bus", "train")


def test_other_files_hidden_files_and_links_are_left_out(tmp_path, notes):
    secret = fill(tmp_path / "elsewhere", classes=("secret",)) / "secret"
    pets = fill(tmp_path / "pets")
    plain = load(pets).sha256
    assert "left out" not in notes()
    (pets / "readme.txt").write_text("hello")
    (pets / "cat" / "Thumbs.db").write_bytes(b"hello")
    (pets / ".git").mkdir()
    (pets / "cat" / ".hidden.png").write_bytes(b"hello")
    os.symlink(secret, pets / "linked")
    os.symlink(secret / "00.png", pets / "cat" / "zz.png")
    os.symlink(pets / "cat" / "00.png", pets / "cat" / "twice.png")
    assert load(pets).sha256 == plain
    assert "left out 5 files" in notes()


@pytest.mark.parametrize("size", [(6, 5), (4, 6)])
def test_all_sizes_must_be_equal(tmp_path, size):
    fill(tmp_path)
    picture(size=size).save(tmp_path / "dog" / "03.png")
    with pytest.raises(TrueriskError) as caught:
        load(tmp_path)
    assert f"{tmp_path}/cat/00.png has 6 x 4 pixels but {tmp_path}/dog/03.png has {size[0]} x {size[1]}" in str(
        caught.value
    )
    assert "resize" in str(caught.value)


def truncated():
    return (PNG := fillers()["png"])[: len(PNG) // 2]


def fillers():
    import io

    out = {}
    for kind in ("png", "jpeg", "ico"):
        stream = io.BytesIO()
        Image.fromarray(np.random.default_rng(0).integers(0, 256, (32, 32), dtype=np.uint8)).save(stream, kind)
        out[kind] = stream.getvalue()
    return out


BROKEN = {
    "empty": b"",
    "text": b"hello",
    "truncated": truncated(),
    "truncated jpeg": fillers()["jpeg"][:-200],
    "header only": fillers()["png"][:40],
    "another format": fillers()["ico"],
    "script": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 6 4\n",
    "flipped": fillers()["png"][:60] + b"\xff" * 60 + fillers()["png"][120:],
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_broken_images_are_refused_by_name(tmp_path, content, monkeypatch):
    fill(tmp_path, size=(32, 32))
    (tmp_path / "dog" / "03.png").write_bytes(content)
    monkeypatch.setattr("PIL.ImageFile.LOAD_TRUNCATED_IMAGES", True)  # whatever the user's program has set
    with pytest.raises(TrueriskError, match=r"03.png is not a readable image .*; repair or remove it\."):
        load(tmp_path)


def test_decompression_bombs_are_refused(tmp_path, monkeypatch):
    fill(tmp_path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 20)  # Pillow itself would only warn, up to twice as many
    warnings.simplefilter("ignore")  # pytest puts the filters back
    with pytest.raises(TrueriskError, match="too many pixels to be decoded safely"):
        load(tmp_path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    monkeypatch.setattr("truerisk.data.formats.images.MOST_PIXELS", 20)
    with pytest.raises(TrueriskError, match="6 x 4 pixels, more than 20"):
        load(tmp_path)


def test_the_memory_is_checked_before_anything_is_decoded(tmp_path, monkeypatch):
    monkeypatch.setattr("truerisk.data.formats.reading.MAX_BYTES", 1000)
    with pytest.raises(TrueriskError, match="needs 1,440 bytes"):
        load(fill(tmp_path))


def test_several_pictures_and_deep_pixels(tmp_path):
    fill(tmp_path)
    frames = [picture(i) for i in range(3)]
    frames[0].save(tmp_path / "dog" / "99.gif", save_all=True, append_images=frames[1:])
    with pytest.raises(TrueriskError, match=r"99.gif holds 3 pictures"):
        load(tmp_path)
    (tmp_path / "dog" / "99.gif").unlink()
    Image.fromarray(np.full((4, 6), 40_000, dtype=np.uint16)).save(tmp_path / "dog" / "99.png")
    with pytest.raises(TrueriskError, match=r"99.png has pixels of type I;16, not 8 bits"):
        load(tmp_path)


def test_odd_folders(tmp_path):
    fill(tmp_path / "deep" / "cat", classes=("wild", "tame"))
    fill(tmp_path / "deep")
    with pytest.raises(TrueriskError, match="cat holds the folder tame"):
        load(tmp_path / "deep")
    fill(tmp_path / "hollow")
    (tmp_path / "hollow" / "emu").mkdir()
    with pytest.raises(TrueriskError, match="emu does not hold any images"):
        load(tmp_path / "hollow")
    with pytest.raises(TrueriskError, match="at least two classes"):
        load(fill(tmp_path / "one", classes=("cat",), n=12))
    with pytest.raises(TrueriskError, match="too few"):
        load(fill(tmp_path / "few", n=2))
    with pytest.raises(TrueriskError, match="holds neither"):
        load(tmp_path / "few" / "cat")  # images without classes
    with pytest.raises(TrueriskError, match="is a folder, which has no 'label'"):
        load(f"{tmp_path / 'few'}:label")


def test_inputs_of_folders(tmp_path):
    fill(tmp_path, n=2)
    X, y, names, _ = load_inputs(tmp_path / "cat")
    assert X.shape == (2, 1, 4, 6)
    assert (y, names) == (None, ())
    assert np.array_equal(X[1], np.asarray(picture(1))[None] / np.float32(255))
    X, y, names, _ = load_inputs(tmp_path)
    assert y.tolist() == [0, 0, 1, 1]
    assert names == ("cat", "dog")


def test_pillow_is_missing(tmp_path, monkeypatch):
    fill(tmp_path)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(TrueriskError, match=r"pip install 'truerisk\[images\]'"):
        load(tmp_path)


def deep(path, kind):
    """A color image of 16 bits, written by hand: Pillow has no such mode."""
    import struct
    import zlib

    rows = np.arange(4 * 6 * 3, dtype=">u2").reshape(4, 6 * 3) * 900
    if kind == "ppm":
        path.write_bytes(b"P6 6 4 65535\n" + rows.tobytes())
    elif kind == "png":

        def chunk(name, content):
            return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

        header = struct.pack(">IIBBBBB", 6, 4, 16, 2, 0, 0, 0)
        body = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b""))
    else:
        bits, pixels = 8 + 2 + 9 * 12 + 4, 8 + 2 + 9 * 12 + 4 + 6
        tags = [(256, 3, 1, 6), (257, 3, 1, 4), (258, 3, 3, bits), (259, 3, 1, 1), (262, 3, 1, 2)]
        tags += [(273, 4, 1, pixels), (277, 3, 1, 3), (278, 3, 1, 4), (279, 4, 1, rows.nbytes)]
        entries = b"".join(struct.pack("<HHII", *tag) for tag in tags)
        head = b"II*\0" + struct.pack("<IH", 8, 9) + entries + struct.pack("<I", 0) + struct.pack("<HHH", 16, 16, 16)
        path.write_bytes(head + rows.astype("<u2").tobytes())


@pytest.mark.parametrize("kind", ["png", "ppm", "tif"])
def test_colors_of_16_bits_are_refused(tmp_path, kind):
    fill(tmp_path, mode="RGB")
    deep(tmp_path / "cat" / f"deep.{kind}", kind)
    with Image.open(tmp_path / "cat" / f"deep.{kind}") as image:
        assert image.convert("RGB").size == (6, 4)  # Pillow reads it
    with pytest.raises(TrueriskError, match=r"has 16 bits per color, of which 8 would be lost; convert it"):
        load(tmp_path)


def test_transparent_and_turned_images_get_notes(tmp_path, notes):
    fill(tmp_path / "a", mode="RGB")
    picture(mode="RGB").convert("RGBA").save(tmp_path / "a" / "cat" / "opaque.png")
    load(tmp_path / "a")
    assert "transparent" not in (said := notes())
    assert "turned" not in said
    glass = picture(mode="RGB").convert("RGBA")
    glass.putalpha(7)
    glass.save(tmp_path / "a" / "cat" / "glass.png")
    exif = Image.Exif()
    exif[274] = 6
    picture(mode="RGB").save(tmp_path / "a" / "dog" / "turned.jpg", exif=exif)
    load(tmp_path / "a")
    said = notes()
    assert "1 images are partly transparent; the colors below are used as they are" in said
    assert "1 images ask to be turned" in said


def test_parts_that_are_links_are_left_out(tmp_path):
    fill(tmp_path / "elsewhere")
    fill(tmp_path / "pets" / "test")
    (tmp_path / "pets" / "train").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TrueriskError, match="holds only a test part"):
        load(tmp_path / "pets")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert len(load(tmp_path / "link")) == 12
