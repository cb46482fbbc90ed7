"""Natural language inference: ESIM over pairs of sentences, scored by accuracy."""
