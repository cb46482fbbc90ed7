"""Sources of frozen layers: the interface `FrozenSource` and its implementations."""
