"""The training loop: settings, batches, steps, checkpoints, perplexity and the card."""
