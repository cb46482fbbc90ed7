"""SQuAD 1.1: questions whose answers are spans of a passage."""
