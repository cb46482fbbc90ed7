"""Pretraining of a biLM: builds a token store from text and trains on it."""
