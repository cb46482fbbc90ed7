"""The bidirectional language model (biLM): characters, encoder, LSTMs, options and weight files."""
