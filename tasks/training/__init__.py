"""Training a head: the trainer, optimisers, batching, weight average and peak memory."""
