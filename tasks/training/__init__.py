"""Training a head: the trainer, batching, weight average, tensor files and peak memory."""
