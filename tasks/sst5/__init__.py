"""Sentiment in five classes: a biattentive classification network over the phrases of treebank sentences."""
