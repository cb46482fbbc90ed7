"""python -m tests.cluster.dying_worker MARKS DEATHS ARGUMENTS...: elmo.embed, with workers that die at the file b.txt.

The first DEATHS workers that embed it are killed in the middle of its shard; each leaves a file in the folder MARKS.
"""

import os
import signal
import sys
from pathlib import Path

from elmo.embed import shards
from elmo.embed.__main__ import main

MARKS, DEATHS = Path(sys.argv[1]), int(sys.argv[2])


class DyingWorker(shards.ShardWriter):
    """Ray sends this class to its workers with the module's values, since its module is __main__."""

    def __call__(self, row):
        if row["name"] == "b.txt" and len(list(MARKS.iterdir())) < DEATHS:
            from elmo.bilm.model import Bilm

            def die(*_):
                (MARKS / str(os.getpid())).touch()
                os.kill(os.getpid(), signal.SIGKILL)

            Bilm.token_layers = die  # the partial file is open by then
        return super().__call__(row)


if __name__ == "__main__":
    shards.ShardWriter = DyingWorker
    sys.exit(main(sys.argv[3:]))
