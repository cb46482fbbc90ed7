"""Pretraining a biLM: text becomes a token store (`corpus.build_store`), which the trainer reads."""
