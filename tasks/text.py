"""Command line of `tasks.running.export_text`: python -m tasks.text."""

import sys

from tasks.running.export_text import main

if __name__ == "__main__":
    sys.exit(main())
