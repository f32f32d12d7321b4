"""Write the sketches by which ``truerisk.data.known`` recognizes data: ``python -m benchmarks.sketches [DATA_DIR]``.

All four training sets must be there (``truerisk data list`` says where they are looked for). A sketch holds hashes of
rows, no row can be read from it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import truerisk.data
from truerisk.atomic import write_atomically
from truerisk.data.known import KNOWN_ROWS, sketch


def main(data_dir: str | None = None) -> None:
    folder = Path(truerisk.data.__file__).parent / "sketches"
    for name, (_, keep) in KNOWN_ROWS.items():
        content = sketch(truerisk.data.load(name, data_dir).X, keep)
        write_atomically(folder / f"{name}.bin", content)
        print(f"{name}: {len(content):,} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
