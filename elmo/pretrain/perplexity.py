"""Command line of `python -m elmo.pretrain.perplexity`."""

import sys

from elmo.pretrain.training.perplexity import main

if __name__ == "__main__":
    sys.exit(main())
