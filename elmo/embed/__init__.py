"""Embedding files: lines in, one output file, or a folder of Parquet shards."""
