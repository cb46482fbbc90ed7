"""The frozen representation: a biLM whose layers every token gets."""
