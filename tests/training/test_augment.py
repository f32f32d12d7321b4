"""Crops, shifts, rotations: every pixel from its place, all places equally often. Mirror images in turn."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from truerisk.data import Data, whiten_images
from truerisk.data import centre_crop as crop_data
from truerisk.errors import TrueriskError
from truerisk.training.augment import Augment, View, centre_crop, random_crop, rotate, shift, whiten


def images(n, channels=3, height=6, width=5, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).random((n, channels, height, width), dtype=np.float32))


def slow_crops(batch, size, seed):
    """One image, one row, one pixel at a time, with the same two calls of the generator."""
    generator = torch.Generator().manual_seed(seed)
    n, channels, height, width = batch.shape
    top = torch.randint(height - size + 1, (n,), generator=generator).tolist()
    left = torch.randint(width - size + 1, (n,), generator=generator).tolist()
    out = torch.empty(n, channels, size, size)
    for i in range(n):
        for c in range(channels):
            for y in range(size):
                for x in range(size):
                    out[i, c, y, x] = batch[i, c, top[i] + y, left[i] + x]
    return out


@pytest.mark.parametrize("size", [1, 3, 5])
def test_random_crops_against_plain_loops(size):
    batch = images(20)
    torch.manual_seed(7)
    assert torch.equal(random_crop(batch, size), slow_crops(batch, size, 7))


def test_all_places_are_equally_frequent():
    # A chi-squared test with a false-alarm rate of 1e-6; the seed is fixed. Pixels carry the number of their place.
    places = torch.arange(12.0).view(1, 1, 3, 4).expand(20_000, -1, -1, -1)
    torch.manual_seed(0)
    corners = random_crop(places, 2)[:, 0, 0, 0].long()
    seen = torch.bincount(corners, minlength=12).view(3, 4)
    assert seen[2].sum() == 0
    assert seen[:, 3].sum() == 0
    assert stats.chisquare(seen[:2, :3].flatten().numpy()).pvalue > 1e-6


def test_whitening_against_one_image_at_a_time():
    batch = images(4)
    batch[1] = 0.3  # an image of one colour stays finite, at zero
    fast = whiten(batch)
    for image, white in zip(batch.double().numpy(), fast.double().numpy(), strict=True):
        spread = max(math.sqrt(((image - image.mean()) ** 2).mean()), 1 / math.sqrt(image.size))
        assert np.allclose(white, (image - image.mean()) / spread, atol=1e-5)


def test_the_view_in_evaluation_is_the_treatment_of_the_data():
    data = Data("toy", images(12, height=8, width=8).numpy(), np.arange(12) % 2, 2)
    treated = whiten_images(crop_data(data, 4)).X
    for random in (False, True):
        view = View(4, random=random).eval()
        assert np.allclose(view(torch.from_numpy(data.X)).numpy(), treated, atol=1e-5)


def test_the_view_in_training_shifts_only_if_asked_to():
    batch = images(50, height=8, width=8)
    fixed, moving = View(8, random=False, pad=1).train(), View(8, random=True, pad=1).train()
    assert torch.equal(fixed(batch), whiten(batch))
    torch.manual_seed(3)
    shifted = moving(batch)
    padded = torch.zeros(50, 3, 10, 10)
    padded[:, :, 1:9, 1:9] = batch
    assert torch.allclose(shifted, whiten(slow_crops(padded, 8, 3)), atol=1e-6)
    assert not torch.equal(shifted, whiten(batch))
    assert torch.equal(moving.eval()(batch), whiten(batch))


def test_the_middle_of_odd_and_even_sides():
    row = torch.arange(7.0).expand(1, 1, 7, 7)
    assert centre_crop(row, 3)[0, 0, 0].tolist() == [2, 3, 4]
    assert centre_crop(row, 4)[0, 0, 0].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("crop", [random_crop, centre_crop])
def test_impossible_crops_are_refused(crop):
    with pytest.raises(TrueriskError, match="size that they have"):
        crop(images(2), 6)
    with pytest.raises(TrueriskError, match="give images"):
        crop(torch.zeros(2, 5), 1)


def slow_shift(batch, most, seed):
    """One pixel at a time; a place outside is reflected at the border pixel."""
    generator = torch.Generator().manual_seed(seed)
    n, channels, height, width = batch.shape
    down = (torch.randint(2 * most + 1, (n,), generator=generator) - most).tolist()
    right = (torch.randint(2 * most + 1, (n,), generator=generator) - most).tolist()

    def inside(place, size):
        return -place if place < 0 else 2 * (size - 1) - place if place >= size else place

    out = torch.empty_like(batch)
    for i in range(n):
        for c in range(channels):
            for y in range(height):
                for x in range(width):
                    out[i, c, y, x] = batch[i, c, inside(y + down[i], height), inside(x + right[i], width)]
    return out


@pytest.mark.parametrize("most", [1, 3])
def test_shifts_against_plain_loops(most):
    batch = images(20)
    torch.manual_seed(7)
    assert torch.equal(shift(batch, most), slow_shift(batch, most, 7))


def test_shifts_that_are_too_far_are_refused():
    with pytest.raises(TrueriskError, match="size that they have"):
        shift(images(2), 5)
    with pytest.raises(TrueriskError, match="give images"):
        shift(torch.zeros(2, 5), 1)


def slow_rotation(image, degrees, across, along):
    """Each pixel from where it was, in pixels from the middle, interpolated linearly between four neighbours."""
    height, width = image.shape[1:]
    turn, out = math.radians(degrees), np.zeros(image.shape)
    for y in range(height):
        for x in range(width):
            u, v = (2 * x + 1) / width - 1, (2 * y + 1) / height - 1  # from -1 to 1
            a = math.cos(turn) * across * u - math.sin(turn) * along * v
            b = math.sin(turn) * across * u + math.cos(turn) * along * v
            px, py = ((a + 1) * width - 1) / 2, ((b + 1) * height - 1) / 2
            for i in range(height):
                for j in range(width):
                    out[:, y, x] += max(0, 1 - abs(py - i)) * max(0, 1 - abs(px - j)) * image[:, i, j]
    return out


@pytest.mark.parametrize("degrees", [10, 45])
def test_rotations_against_plain_loops(degrees):
    batch = images(5, channels=2, height=7, width=7)
    torch.manual_seed(3)
    fast = rotate(batch, degrees)
    draws = torch.empty(3, 5).uniform_(-1, 1, generator=torch.Generator().manual_seed(3)).double() * degrees
    for image, turned, (angle, wide, tall) in zip(batch, fast, draws.T.tolist(), strict=True):
        slow = slow_rotation(image.double().numpy(), angle, 1 + wide / 100, 1 + tall / 100)
        assert np.allclose(turned.numpy(), slow, atol=1e-4)


def test_mirrored_every_other_epoch_beginning_with_a_coin():
    batch = images(40)
    augment, seen = Augment("flip", 40, seed=1), []
    for epoch in range(4):
        augment.start_epoch(epoch)
        rows = torch.randperm(40)
        out = torch.empty_like(batch)
        out[rows] = augment(batch[rows], rows)
        mirrored = torch.tensor([torch.equal(a, b.flip(-1)) for a, b in zip(out, batch, strict=True)])
        plain = torch.tensor([torch.equal(a, b) for a, b in zip(out, batch, strict=True)])
        assert torch.equal(mirrored, ~plain)
        seen.append(mirrored)
    assert torch.equal(seen[0], seen[2])
    assert torch.equal(seen[0], ~seen[1])
    assert torch.equal(seen[1], seen[3])
    assert 8 <= int(seen[0].sum()) <= 32  # a fair coin is outside with probability 1e-4; the seed is fixed
    assert not torch.equal(Augment("flip", 40, seed=2).mirrored, augment.mirrored)


def test_augmentations_are_applied_in_the_order_of_the_text():
    batch, rows = images(30, height=6, width=6), torch.arange(30)
    torch.manual_seed(5)
    fast = Augment("rotate:20,shift:2", 30)(batch, rows)
    torch.manual_seed(5)
    assert torch.equal(fast, shift(rotate(batch, 20), 2))
    assert Augment("")(batch, rows) is batch


@pytest.mark.parametrize(
    "text", ["flips", "shift", "shift:", "shift:0", "shift:-1", "shift:1.5", "flip:1", ",", "flip,"]
)
def test_texts_that_are_no_augmentation_are_refused(text):
    with pytest.raises(TrueriskError, match="not readable"):
        Augment(text)


@pytest.mark.parametrize("text", ["flip", "shift:1", "rotate:5"])
def test_inputs_that_are_no_images_are_refused(text):
    with pytest.raises(TrueriskError, match="give images"):
        Augment(text, 4)(torch.zeros(4, 4), torch.arange(4))
