"""Errors: InputError for unusable input, excerpts of values for messages, and commands that report errors."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, NoReturn

STDOUT = 1
LONGEST_EXCERPT = 80
LONGEST_WORD = 500  # of a message, in characters
OWN_PACKAGES = ("elmo", "tasks", "results", "conf")
Work = Callable[[argparse.Namespace], int | None]  # what a command does with its options
CLOSED_PIPE = 141  # the exit status that shells give to a program that SIGPIPE ended


class InputError(ValueError):
    """A file, option or value that cannot be used; the message names it, what was expected, and what to do next.

    Commands print the message alone; any other exception is a bug and keeps its traceback.
    """


def excerpt(value: object) -> str:
    """The repr of a value, shortened for an error message: a line of a broken file may be megabytes long."""
    shown = repr(value[: LONGEST_EXCERPT + 1] if isinstance(value, str | bytes) else value)
    shown = re.sub(r"\s*\n\s*", " ", shown)  # arrays have several lines
    return shown if len(shown) <= LONGEST_EXCERPT + 2 else f"{shown[:LONGEST_EXCERPT]}..."


def shortened(message: str) -> str:
    """A message without the rest of words that are longer than any path: they may come from a broken file."""
    return re.sub(rf"\S{{{LONGEST_WORD},}}", lambda word: f"{word[0][:LONGEST_EXCERPT]}...", message)


@contextmanager
def reworded(
    kinds: type[Exception] | tuple[type[Exception], ...], say: Callable[[Any], str], kind: type[Exception] = InputError
) -> Iterator[None]:
    """Raises an InputError, or an error of another kind, for one of the block; one of that kind already passes.

    Args:
        kinds: of the error in the block.
        say: the text of the new error, from that one.
        kind: of the new error.
    """
    try:
        yield
    except kinds as error:
        if isinstance(error, kind):
            raise
        raise kind(say(error)) from error


@contextmanager
def naming(where: object, remedy: str) -> Iterator[None]:
    """Adds the file, or what it is called, and the remedy to the message of an InputError about its content."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}. {remedy}") from error


@contextmanager
def ending_with_reader() -> Iterator[None]:
    """Ends the program without a message if the reader of standard output, such as `head`, has closed the pipe."""
    try:
        try:
            yield
        finally:
            print(end="", flush=True)  # at its own end, Python would report the pipe
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)  # discards the rest of the output
        sys.exit(CLOSED_PIPE)


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Raises Ctrl-C again where an error of the block has taken its place.

    Python raises KeyboardInterrupt in the middle of any statement. In torch.save and omegaconf the cleanup then fails,
    and its error is all that the caller sees: a run that the user stopped would count as failed.
    """
    try:
        yield
    except Exception as error:
        cause = error.__context__
        while cause is not None and not isinstance(cause, KeyboardInterrupt):
            cause = cause.__context__
        if cause is None:
            raise
        raise cause from None


class CommandParser(argparse.ArgumentParser):
    """The parser of a command, `python -m MODULE`."""

    def run(self, given: Sequence[str] | None, work: Work, interrupted: str = "interrupted") -> int:
        """The exit status of the command, see `exit_status`; `work` gets its options."""
        options = self.parse_intermixed_args(given)
        return exit_status(self.prog.removeprefix("python -m "), lambda: work(options), interrupted)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Ends the program, after its help or an error."""
        sys.exit(exit_status(self.prog, partial(super().exit, status, message)))


def shorten_interrupts() -> None:
    """Makes Ctrl-C, or a package that is not installed, print one line, if `python -m` is loading a command.

    A package calls this first: loading torch takes seconds, in which a command cannot catch Ctrl-C yet. The exit status
    is Python's: that of a process that SIGINT ended, 130 in shells.
    """
    if sys.argv[:1] == ["-m"]:  # as long as Python loads the packages on the way to the command, and only then
        command = sys.orig_argv[sys.orig_argv.index("-m") + 1]
        if sys.excepthook is sys.__excepthook__ and not command.startswith("results"):
            say_on_terminal(f"{command}: loading torch")
        sys.excepthook = _report_uncaught


def say_on_terminal(work: str) -> None:
    """Says at a terminal what takes seconds, before it begins."""
    if sys.stderr.isatty():
        print(f"{work} ...", file=sys.stderr)


def _report_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
    elif isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] not in OWN_PACKAGES:
        remedy = "In its folder, run `make setup` once, then use .venv/bin/python"
        print(f"{error}: {sys.executable} lacks packages of the suite. {remedy}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


def command_parser(module: str, description: str, epilog: str | None = None) -> CommandParser:
    """A parser for `python -m MODULE` whose help keeps the line breaks of these texts."""
    layout = argparse.RawDescriptionHelpFormatter
    return CommandParser(f"python -m {module}", description=description, epilog=epilog, formatter_class=layout)


def exit_status(module: str, work: Callable[[], int | None], interrupted: str = "interrupted") -> int:
    """The exit status of a command: that of `work`, or 1 after an error message, or 130 after Ctrl-C.

    A closed pipe ends the program, see `ending_with_reader`.

    Args:
        module: starts each message.
        work: does everything; None is 0.
        interrupted: what Ctrl-C means for the user.
    """
    try:
        with ending_with_reader(), interrupts_kept():
            return work() or 0
    except (FileNotFoundError, IsADirectoryError, FileExistsError, NotADirectoryError) as error:
        message = f"{error.filename}: {error.strerror}. Check the path"
    except (InputError, OSError) as error:  # OSError: for example a full disk
        message = str(error)
    except KeyboardInterrupt:
        print(f"{module}: {interrupted}", file=sys.stderr)
        return 130
    print(f"{module}: {shortened(message)}", file=sys.stderr)
    return 1
