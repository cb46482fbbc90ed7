"""Command line of `elmo.pretrain.word2vec`: python -m tasks.word2vec."""

import sys

from elmo.pretrain.word2vec import main

if __name__ == "__main__":
    sys.exit(main())
