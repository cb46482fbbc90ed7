"""The one error that this package raises for what a user gave it."""


class InputError(ValueError):
    """A file, option or value that cannot be used; the message says which, what was expected, and what to do next.

    Commands print the message alone; any other exception is a bug and keeps its traceback.
    """
