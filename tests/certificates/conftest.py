"""Shared by the tests of methods: forged copies of a certificate."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from truerisk.certificates.files import sha256
from truerisk.pacbayes import monte_carlo


@pytest.fixture(scope="module", autouse=True)
def _few_draws(request: pytest.FixtureRequest) -> Iterator[None]:
    """20,000 draws in place of a million: the same arithmetic, sooner. A module may ask for others (``DRAWS``)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(monte_carlo, "TRIALS", getattr(request.module, "DRAWS", 20_000))
        yield


@pytest.fixture(scope="session")
def edit() -> Callable[..., Path]:
    def forge(
        folder: Path,
        copy: Path,
        *,
        tensors: tuple[str, Callable[[dict[str, Any]], Any]] | None = None,
        record: Callable[[dict[str, Any]], Any] | None = None,
    ) -> Path:
        """A copy of a certificate with edited arrays or fields, and hashes that fit again."""
        for path in folder.iterdir():
            (copy / path.name).write_bytes(path.read_bytes())
        if tensors is not None:
            name, change = tensors
            content = load_file(copy / name)
            change(content)
            save_file(content, copy / name)
        claims = json.loads((copy / "certificate.json").read_text())
        if record is not None:
            record(claims)
        claims["files"] = {name: sha256((copy / name).read_bytes()) for name in claims["files"]}
        (copy / "certificate.json").write_text(json.dumps(claims))
        return copy

    return forge
