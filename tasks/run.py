"""The command `python -m tasks.run`: trains and tests a model, or a sweep of models, and writes their records.

python -m tasks.run [KEY=VALUE ...]      one run: train, select on dev, test once, write a record
python -m tasks.run -m KEY=A,B,C ...     one run for each combination (-m may be anywhere)
python -m tasks.run -m experiment=NAME   the runs of a table, or of your own PATH.toml:
{experiments}
                                         task=ner seed=1 selects some of them, other keys apply to all
                                         (python -m results.table --experiment NAME shows it)

  task={tasks}
  features=glove|elmo|elmo_random        the arm: baseline, baseline + ELMo, baseline + untrained biLM
           elmo_layer0|elmo_shuffled     more controls: no context; trained weights, permuted
           elmo_matched                  permuted weights, vectors of ELMo's length: only what was learned is missing
           elmo_isolated|elmo_window1|elmo_window3|elmo_permuted
                                         the context ladder: each word alone, with neighbours, in a permuted sentence
           static|elmo_static            baseline + vectors of the biLM's text (python -m tasks.word2vec); + ELMo
           word2vec|static_elmo          these vectors instead of GloVe; the same + ELMo
           bag_of_words                  below the baseline: logistic regression on words, no vectors
           drawn                         below the baseline: word vectors drawn at random
           flair|flair_elmo              baseline + states of character LMs; the same + ELMo
           lm|masked                     baseline + a language model of ours, any or masked (python -m elmo.pretrain)
           cove                          GloVe 840B + the encoder of a translation model
           taglm                         baseline + top layer of the biLM, between the layers of a tagger: task=ner
           transformer                   baseline + a frozen transformer: features.transformer.model=NAME|PATH
           features.elmo.tune=true       also train the biLM (for a transformer: features.transformer.tune=true)
  data=mini|paper|NAME                   shipped data, official files under data_dir, conf/data/NAME.yaml, or the task's
  data=PATH.yaml                         a dataset from a file; only the keys of a dataset, so it cannot run code
  seed=N  train_fraction=0.1             a share of the training examples, drawn by the seed
  fold=N                                 one fold of a dataset with folds; for all ten: -m 'fold=range(10)'
  limit=N                                the first N examples of each split, for a quick test
  device=auto|cpu|cuda  threads=N        where to run; CPU threads of torch
  keep_weights=true                      save the model, for python -m tasks.predict
  also=[btc,wnut17]  confidences=true    score it on further test sets, too; keep the probabilities of its predictions
  runs_dir=DIR  data_dir=DIR             where records go, where official files are (default: $ELMO_DATA or ./data)
  store.path=DIR  store.limit_gb=N       where frozen layers are stored (python -m elmo.store info)
  logger=wandb  logger.mode=offline      send curves to Weights & Biases, or to files for `wandb sync`
  trainer.epochs=N  task.hidden=N  features.elmo.weights=NAME|PATH ...   any setting; --cfg job prints them all
  --plan                                 print runs, time, disk, downloads and what is missing; run nothing
  --keep-going                           start a sweep although some of its runs lack data or weights
  --config-dir DIR                       a folder with your configs, trusted like code: its YAML may call functions

Finished runs are skipped, killed runs continue from their last epoch, failed runs need retry=failed to run again.
Progress: python -m results.status. Results: python -m results.table
"""

import gc
import sys
import textwrap

from elmo.common.errors import ending_with_reader
from elmo.common.files import print_lines
from results.experiments import experiment_names
from tasks.command_line import group_options


def main() -> None:
    """Runs the command; the exit status is 1 if a run failed, now or before."""
    if any(argument in ("--help", "-h") for argument in sys.argv[1:]):
        experiments = textwrap.indent(textwrap.fill(", ".join(experiment_names()), 78), 41 * " ")
        with ending_with_reader():
            print_lines([str(__doc__).format(tasks="|".join(group_options("task")), experiments=experiments)])
        return
    gc.disable()  # to look for garbage while modules are loaded takes 0.3 s
    from tasks.sweeps.command import run_command  # torch and Hydra take two seconds, which --help should not need

    gc.freeze()
    gc.enable()
    run_command()


if __name__ == "__main__":
    main()
