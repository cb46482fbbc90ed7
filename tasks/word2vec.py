"""The command `python -m tasks.word2vec`: trains word2vec vectors. See `elmo.pretrain.word2vec`."""

import sys

from elmo.pretrain.word2vec import main

if __name__ == "__main__":
    sys.exit(main())
