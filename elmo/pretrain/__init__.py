"""Pretraining of a biLM or a masked LM: builds a token store from text and trains on it."""
