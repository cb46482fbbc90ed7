"""Reading data: datasets and their sources, text files, tag schemes."""
