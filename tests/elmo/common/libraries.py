"""Compiled libraries that this process has loaded."""

from elmo.common import c_library


def forget_libraries():
    """Makes this process look for its libraries again."""
    c_library._load.cache_clear()
    c_library._warn_once.cache_clear()
