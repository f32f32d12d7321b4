"""One file per experiment, read top to bottom: the question, the task, the grids, the claims, the figures."""
