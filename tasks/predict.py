"""Command line of `tasks.running.predict`: python -m tasks.predict."""

import sys

from tasks.running.predict import main

if __name__ == "__main__":
    sys.exit(main())
