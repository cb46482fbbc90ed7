"""The command `python -m tasks.predict`: applies a trained model to text. See `tasks.running.predict`."""

import sys

from tasks.running.predict import main

if __name__ == "__main__":
    sys.exit(main())
