"""Corpus preparation: text files to a token store."""
