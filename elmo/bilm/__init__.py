"""The bidirectional language model: characters, encoder, LSTMs, options and weight files."""
