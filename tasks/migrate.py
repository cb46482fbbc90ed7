"""Command line of `tasks.running.migrate`: python -m tasks.migrate."""

import sys

from tasks.running.migrate import main

if __name__ == "__main__":
    sys.exit(main())
