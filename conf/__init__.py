"""Every number a person may want to change, as Hydra configs (package data)."""
