"""The command `python -m elmo.pretrain.perplexity`: perplexity of a biLM, or masked loss of a masked LM, on a text."""

import sys

from elmo.pretrain.training.perplexity import main

if __name__ == "__main__":
    sys.exit(main())
