"""Run a grid of tasks: here, in local processes, on a Dask cluster; keep what is finished."""
