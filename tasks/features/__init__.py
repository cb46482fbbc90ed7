"""Token features: word vectors, character CNN and frozen layers, joined into the places of a head."""
