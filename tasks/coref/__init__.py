"""Coreference: which mentions in a document mean the same entity."""
