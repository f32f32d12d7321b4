"""Run a grid of tasks: here, in local processes, on a Dask cluster; keep what is finished."""

from truerisk.engine.executors import Engine
from truerisk.engine.grid import Done, Failed, Grid, Report, pending, run_grid, stored
from truerisk.engine.key import canonical, key
from truerisk.engine.store import Store
from truerisk.engine.version import fingerprint, hash_code

__all__ = [
    "Done",
    "Engine",
    "Failed",
    "Grid",
    "Report",
    "Store",
    "canonical",
    "fingerprint",
    "hash_code",
    "key",
    "pending",
    "run_grid",
    "stored",
]
