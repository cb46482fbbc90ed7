"""The command `python -m tasks.text`: prints the training text of a task. See `tasks.running.export_text`."""

import sys

from tasks.running.export_text import main

if __name__ == "__main__":
    sys.exit(main())
