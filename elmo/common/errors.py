"""The one error that this package raises for what a user gave it, and how it shows what was found."""


class InputError(ValueError):
    """A file, option or value that cannot be used; the message says which, what was expected, and what to do next.

    Commands print the message alone; any other exception is a bug and keeps its traceback.
    """


def excerpt(value: object, most: int = 80) -> str:
    """A value as an error shows it: its repr, cut, since a line or a field of a broken file may be megabytes long."""
    shown = repr(value[: most + 1] if isinstance(value, str | bytes) else value)
    return shown if len(shown) <= most + 2 else f"{shown[:most]}..."
