"""Training of a biLM or a masked LM: settings, batches, steps, checkpoints, held-out measures and the model card."""
