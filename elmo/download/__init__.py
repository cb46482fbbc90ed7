"""What others publish, by name: AllenNLP's biLMs (allennlp/small) and Stanford's GloVe (glove/6B.50d).

`published` is the table of names, `transfer` brings one file from a URL, and `folder` holds the two together: a name is
looked up in the folder of downloads, $ELMO_CACHE or ~/.cache/elmo-suite/downloads, and downloaded if it is not there.
`python -m elmo.download` does so ahead of time.
"""

from elmo.download.folder import content_hash, downloads_folder, is_here, obtain
from elmo.download.published import BILMS, VECTORS, files_of, is_published

__all__ = ["BILMS", "VECTORS", "content_hash", "downloads_folder", "files_of", "is_here", "is_published", "obtain"]
