"""Folders of images, one folder for each class: FOLDER/CLASS/*.png, or FOLDER/train/CLASS and FOLDER/test/CLASS.

Only normal files and folders are read. A symbolic link is left out: it could lead out of a folder that somebody else
packed, and one that leads to a neighbor would count the same image twice, which makes a certificate too small. So are
the folders `train` and `test` where they are links; the folder that you give may be one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from truerisk.data.formats.labels import check_names, tell
from truerisk.data.formats.reading import Content, check_size, reason
from truerisk.errors import TrueriskError
from truerisk.progress import bar, note

# Decoders of formats that nobody stores datasets in are never run on a file, whatever it says it is.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
ENDINGS = frozenset(".png .jpg .jpeg .bmp .gif .ppm .pgm .tif .tiff .webp".split())
GRAY, COLOR = ("1", "L", "LA"), ("P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")  # Pillow's modes of 8 bits or fewer
BITS_PER_SAMPLE, ORIENTATION = 258, 274  # tags of TIFF, and of EXIF
MOST_PIXELS = 89_478_485  # of one image: Pillow's own limit, beyond which it warns of a decompression bomb


class Listing(NamedTuple):
    """What a folder holds, hidden files and links aside."""

    folders: list[Path]
    images: list[Path]
    others: int  # files that are not images, and symbolic links


class Header(NamedTuple):
    """What is known of an image before it is decoded."""

    size: tuple[int, int]  # width and height
    gray: bool


class Look(NamedTuple):
    """What a viewer would show otherwise than the pixels are stored."""

    transparent: bool
    turned: bool


def find_classes(folder: Path, part: str) -> Path | None:
    """The folder whose folders are the classes of one part, or None where there is no such thing.

    A `train` or `test` that is a symbolic link is left out, as links in class folders are.
    """
    inner = {each: folder / each for each in ("train", "test") if not (folder / each).is_symlink()}
    if part in inner and _holds_classes(inner[part]):
        return inner[part]
    split = any(_holds_classes(each) for each in inner.values())
    return folder if part == "train" and not split and _holds_classes(folder) else None


def read_classes(folder: Path, names: Sequence[str] = ()) -> Content:
    """All images of the class folders in here; `names` are the classes if another part decides them."""
    found = _listing(folder)
    classes = list(names) or [each.name for each in found.folders]
    unknown = next((each.name for each in found.folders if each.name not in classes), None)
    if unknown is not None:
        raise TrueriskError(f"{folder} has a class {unknown} that the train part lacks; remove it, or add it there.")
    paths: list[Path] = []
    labels: list[int] = []
    others = found.others + len(found.images)
    for each in found.folders:
        inside = _listing(each)
        if inside.folders:
            raise TrueriskError(
                f"{each} holds the folder {inside.folders[0].name}; put all images of a class directly into its folder."
            )
        if not inside.images and not names:  # a test part may lack a class, a list of classes may not
            raise TrueriskError(f"{each} does not hold any images; add some, or remove this folder.")
        paths += inside.images
        labels += [classes.index(each.name)] * len(inside.images)
        others += inside.others
    check_names(tuple(classes), str(folder))
    _tell_left_out(others, folder)
    X = read_images(paths)
    tell(tuple(classes), folder.name)
    return Content(X, np.array(labels, dtype=np.int64), len(classes), tuple(classes))


def class_names(folder: Path) -> list[str]:
    """The names of the class folders in here, sorted."""
    return [each.name for each in _listing(folder).folders]


def read_flat(folder: Path) -> Content | None:
    """The images that lie directly in a folder, as inputs without labels; None where there are none."""
    found = _listing(folder)
    if not found.images:
        return None
    _tell_left_out(found.others, folder)
    return Content(read_images(found.images), None)


def read_images(paths: Sequence[Path]) -> np.ndarray:
    """Bytes (n, 1, height, width) if all images are gray, otherwise (n, 3, height, width)."""
    if not paths:
        raise TrueriskError("there are no images to read; give a folder with at least one.")
    with _strict_pillow(paths[0].parent) as pillow, bar("reading images", total=2 * len(paths)) as advance:
        gray = True
        first = _header(pillow, paths[0])
        for path in paths:
            header = _header(pillow, path)
            if header.size != first.size:
                raise TrueriskError(
                    f"{paths[0]} has {_sides(first)} pixels but {path} has {_sides(header)}; "
                    "resize all images to one size."
                )
            gray = gray and header.gray
            advance()
        shape = (len(paths), 1 if gray else 3, first.size[1], first.size[0])
        check_size(paths[0].parent, shape, 5)  # a byte, and later a 32-bit float, for each value
        X = np.empty(shape, dtype=np.uint8)
        transparent = turned = 0
        for place, path in enumerate(paths):
            X[place], look = _pixels(pillow, path, shape[1:])
            transparent, turned = transparent + look.transparent, turned + look.turned
            advance()
    _tell_looks(transparent, turned, paths[0].parent)
    return X


def _tell_looks(transparent: int, turned: int, folder: Path) -> None:
    if transparent:
        note(f"{folder.name}: {transparent:,} images are partly transparent; the colors below are used as they are.")
    if turned:
        note(f"{folder.name}: {turned:,} images ask to be turned (EXIF orientation); they are read as they are stored.")


def _holds_classes(folder: Path) -> bool:
    """Whether some folder in here directly holds an image."""
    return folder.is_dir() and any(_listing(each).images for each in _listing(folder).folders)


def _listing(folder: Path) -> Listing:
    """Folders and images in sorted order."""
    folders, images, others = [], [], 0
    try:
        entries = sorted(folder.iterdir(), key=lambda path: path.name)
    except OSError as error:
        raise TrueriskError(f"{folder} cannot be read ({reason(error.strerror)}); check its permissions.") from error
    for path in entries:
        if path.name.startswith("."):
            continue
        if path.is_symlink():
            others += 1
        elif path.is_dir():
            folders.append(path)
        elif path.is_file() and path.suffix.lower() in ENDINGS:
            images.append(path)
        else:
            others += 1
    return Listing(folders, images, others)


def _tell_left_out(others: int, folder: Path) -> None:
    if others:
        note(f"{folder.name}: left out {others:,} files that are not images of a class, or are symbolic links.")


@contextmanager
def _strict_pillow(place: Path) -> Iterator[Any]:
    """Pillow's module of images, with decompression bombs and truncated files as errors."""
    try:
        from PIL import Image, ImageFile
    except ImportError as error:
        raise TrueriskError(f"{place} holds images; run `pip install 'truerisk[images]'` to read them.") from error
    lenient, ImageFile.LOAD_TRUNCATED_IMAGES = ImageFile.LOAD_TRUNCATED_IMAGES, False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on odd metadata, which is not read
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            yield Image
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = lenient


def _header(pillow: Any, path: Path) -> Header:
    """Size and mode, checked, without decoding the image."""
    with _opened(pillow, path) as image:
        # Some cameras add a preview or a second eye to a JPEG ("MPO"); its first picture is the photograph.
        frames = 1 if image.format == "MPO" else getattr(image, "n_frames", 1)
        size, mode, bits = image.size, image.mode, _bits(image, path)
    if size[0] * size[1] > MOST_PIXELS:
        raise TrueriskError(f"{path} has {size[0]} x {size[1]} pixels, more than {MOST_PIXELS:,}; resize it.")
    if frames != 1:
        raise TrueriskError(f"{path} holds {frames} pictures; save one picture in each file.")
    if mode not in GRAY + COLOR:
        # Pillow would cut 16 bits at 255, so that most pixels become white.
        raise TrueriskError(f"{path} has pixels of type {mode}, not 8 bits; convert it to 8-bit gray or RGB.")
    if bits > 8:
        raise TrueriskError(f"{path} has {bits} bits per color, of which 8 would be lost; convert it to 8-bit RGB.")
    return Header(size, mode in GRAY)


def _bits(image: Any, path: Path) -> int:
    """Bits per color as they are stored: Pillow reads 16 bits of colors as 8, without a word."""
    if image.format == "PNG":
        with path.open("rb") as stream:
            return stream.read(25)[24]
    if image.format == "TIFF":
        return max(map(int, np.atleast_1d(image.tag_v2.get(BITS_PER_SAMPLE, 8))))
    if image.format == "PPM":
        most = image.tile[0].args[-1] if isinstance(image.tile[0].args, tuple) else 255
        return 16 if isinstance(most, int) and most > 255 else 8
    return 8


def _pixels(pillow: Any, path: Path, shape: tuple[int, ...]) -> tuple[np.ndarray, Look]:
    """One image as bytes (channels, height, width)."""
    with _opened(pillow, path) as image:
        array = np.asarray(image.convert("L" if shape[0] == 1 else "RGB"), dtype=np.uint8)
        look = Look(_transparent(image), _turned(image))  # after decoding, whose errors must not be lost
    pixels = array[None] if shape[0] == 1 else np.moveaxis(array, -1, 0)
    if pixels.shape != shape:
        raise TrueriskError(f"{path} changed while it was read; try again.")
    return pixels, look


def _transparent(image: Any) -> bool:
    """Whether a pixel is not opaque."""
    if image.mode not in ("LA", "PA", "RGBA") and "transparency" not in image.info:
        return False
    return bool(image.convert("RGBA").getchannel("A").getextrema()[0] < 255)


def _turned(image: Any) -> bool:
    """Whether the file asks its viewers to turn or mirror the picture; metadata that cannot be read asks nothing."""
    try:
        return image.getexif().get(ORIENTATION, 1) not in (0, 1)
    except Exception:  # of many kinds, from bytes that nobody checks
        return False


@contextmanager
def _opened(pillow: Any, path: Path) -> Iterator[Any]:
    """An open image; whatever a broken file makes a decoder raise becomes one sentence."""
    try:
        with pillow.open(path, formats=FORMATS) as image:
            yield image
    except TrueriskError:
        raise
    except (pillow.DecompressionBombWarning, pillow.DecompressionBombError) as error:
        raise TrueriskError(f"{path} has too many pixels to be decoded safely; resize or remove it.") from error
    except Exception as error:  # decoders raise SyntaxError, struct.error, KeyError, ...: any of them means broken
        raise TrueriskError(f"{path} is not a readable image ({_cause(error)}); repair or remove it.") from error


def _cause(error: Exception) -> str:
    from PIL import UnidentifiedImageError

    return "unknown format" if isinstance(error, UnidentifiedImageError) else reason(error)


def _sides(header: Header) -> str:
    return f"{header.size[0]} x {header.size[1]}"
