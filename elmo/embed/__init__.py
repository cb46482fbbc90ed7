"""Embeds text files, into one output file or a folder of Parquet shards."""
