"""From text files to a token store."""
