"""``python -m truerisk``."""

from truerisk.cli import main

if __name__ == "__main__":
    main()
