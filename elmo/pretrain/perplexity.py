"""python -m elmo.pretrain.perplexity: the command of `elmo.pretrain.training.perplexity`."""

import sys

from elmo.pretrain.training.perplexity import main

if __name__ == "__main__":
    sys.exit(main())
