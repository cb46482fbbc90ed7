"""Named entity recognition: a BiLSTM-CRF over BIOES tags, scored by span F1."""
