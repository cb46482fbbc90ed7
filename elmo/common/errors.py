"""Errors: InputError for unusable input, and excerpts of values for messages."""


class InputError(ValueError):
    """A file, option or value that cannot be used; the message says which, what was expected, and what to do next.

    Commands print the message alone; any other exception is a bug and keeps its traceback.
    """


def excerpt(value: object, most: int = 80) -> str:
    """The repr of a value, shortened for an error message: a line of a broken file may be megabytes long."""
    shown = repr(value[: most + 1] if isinstance(value, str | bytes) else value)
    return shown if len(shown) <= most + 2 else f"{shown[:most]}..."
