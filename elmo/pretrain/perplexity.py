"""The command `python -m elmo.pretrain.perplexity`: measures the perplexity of a biLM on a text."""

import sys

from elmo.pretrain.training.perplexity import main

if __name__ == "__main__":
    sys.exit(main())
