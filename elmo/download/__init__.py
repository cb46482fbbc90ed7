"""Downloads by name: biLMs (allennlp/small), flair's character LMs, CoVe, and Stanford's GloVe (glove/6B.50d).

`published` is the table of names. `folder` looks for a name in the folder of downloads, $ELMO_CACHE or
~/.cache/elmo-suite/downloads, and downloads it if it is not there. The command `python -m elmo.download` does so ahead
of time.
"""
