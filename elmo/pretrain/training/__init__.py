"""Training of a biLM: settings, batches, steps, checkpoints, perplexity and the model card."""
