"""Random convolutional features by hand, in blocks of any size."""

import math

import numpy as np
import pytest
import torch
from nets.symmetric import full

from truerisk.errors import TrueriskError
from truerisk.nets import patches


def slow_features(kernel, image, filter_index):
    """One filter on one image: each patch normalized, multiplied by the filter, rectified, and averaged by region."""
    weights = kernel.filters[filter_index].double().numpy()
    _, height, width = weights.shape
    responses = np.empty((image.shape[1] - height + 1, image.shape[2] - width + 1))
    for top in range(responses.shape[0]):
        for left in range(responses.shape[1]):
            patch = image[:, top : top + height, left : left + width]
            patch = (patch - patch.mean()) / math.sqrt(patch.var() + 10 / 255**2)
            responses[top, left] = (weights * patch).sum() - float(kernel.offsets[filter_index])
    out = []
    for sign in (1, -1):
        excess = np.maximum(sign * responses - 1, 0)
        middle = [side // 2 for side in excess.shape]  # even sides: four equal regions
        corners = [excess[: middle[0], : middle[1]], excess[: middle[0], middle[1] :]]
        corners += [excess[middle[0] :, : middle[1]], excess[middle[0] :, middle[1] :]]
        out.append([corner.mean() / kernel.scale for corner in corners])
    return np.array(out)


def test_patch_features_by_hand():
    X = np.random.default_rng(0).uniform(size=(30, 2, 8, 8)).astype(np.float32)
    kernel = patches.patch_kernel(X, filters=5, patch=3, seed=1)
    features = np.concatenate(list(kernel.blocks(X)), axis=1)
    assert features.shape == (30, 5 * 2 * 4)
    for image, index in ((0, 0), (7, 3), (29, 4)):
        by_hand = slow_features(kernel, X[image].astype(np.float64), index)
        found = features[image].reshape(2, 5, 4)[:, index]
        assert np.allclose(found, by_hand, atol=1e-5)
    assert (features**2).sum() / 30 == pytest.approx(1, rel=1e-6)
    gram = features @ features.T
    assert np.allclose(full(kernel.triangle(X)), gram, atol=1e-12)
    assert np.allclose(kernel.apply(X[:4], X, np.eye(30)), gram[:4], atol=1e-12)


def test_responses_to_whitened_patches_have_unit_scale():
    # White noise: responses of unit filters to whitened patches have a deviation of about 1 / sqrt(1 + 0.1).
    X = np.random.default_rng(0).normal(size=(200, 1, 8, 8)).astype(np.float32)
    kernel = patches.patch_kernel(X, filters=16, patch=3, seed=1)
    spread = torch.sqrt(patches._patch_variance(torch.from_numpy(X), torch.Size([3, 3])) + patches.CONTRAST)
    responses = torch.nn.functional.conv2d(torch.from_numpy(X), kernel.filters) / spread
    assert responses.std().item() == pytest.approx(1, abs=0.1)


def test_filters_follow_the_seed_in_blocks_of_any_size(monkeypatch):
    X = np.random.default_rng(0).normal(size=(20, 40)).astype(np.float32)  # signals, not images
    kernel = patches.patch_kernel(X, filters=9, patch=7, seed=1)
    assert kernel.regions == (1, 4)
    whole = full(kernel.triangle(X))
    assert not torch.equal(kernel.filters, patches.patch_kernel(X, filters=9, patch=7, seed=2).filters)
    monkeypatch.setattr(patches, "AT_ONCE", 4)
    monkeypatch.setattr(patches, "IMAGES", 6)
    assert np.allclose(full(kernel.triangle(X)), whole, atol=1e-6)


def test_patches_larger_than_the_image_are_refused():
    with pytest.raises(TrueriskError, match="41 pixels wide"):
        patches.patch_kernel(np.zeros((20, 40), np.float32), filters=9, patch=41, seed=1)
