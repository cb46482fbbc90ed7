"""The text of the page of published tables, from `paper/tables_page.toml`, and the experiments that the page shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from results.records.typed_json import PAPER, read_toml

TABLE1 = "table1"  # its two arms are the main ones of a user's own runs
# Its two arms are the main ones of published runs. It has a chapter of its own kind, `gains`. Once runs of TABLE1 are
# published, this is TABLE1.
HEADLINE = "table1_old"
TEXTS = PAPER / "tables_page.toml"


@dataclass(frozen=True)
class Chapter:
    """A heading, and the text below it."""

    title: str
    text: str = ""


@dataclass(frozen=True)
class Controls(Chapter):
    """Further comparisons: pairs of arms, and all arms that the table shows."""

    compared: Sequence[Sequence[str]] = ()
    arms: Sequence[str] = ()


@dataclass(frozen=True)
class PaperChapter:
    """A table or figure of the paper, or an experiment of ours.

    Attributes:
        experiment: The experiment that it shows; its file has the title.
        title: The title where there is no experiment.
        text: What the chapter says first.
        figure: What is drawn of the experiment: "efficiency", "layers", "arms", "perplexity" or nothing.
        command: What makes it, where there is no experiment.
        file: A Markdown file next to the records that is shown as it is, where there is no experiment.
    """

    experiment: str = ""
    title: str = ""
    text: str = ""
    figure: str = ""
    command: str = ""
    file: str = ""


@dataclass(frozen=True)
class PageTexts:
    """The content of tables_page.toml."""

    introduction: str
    rerun: str
    paper: Sequence[PaperChapter]
    gains: Chapter
    demo: Chapter
    controls: Controls
    speed: Chapter
    anchors: Chapter
    costs: Chapter
    settings: Chapter
    curves: Chapter
    layers: Chapter


@cache
def load_texts() -> PageTexts:
    """The texts, read once."""
    return read_toml(PageTexts, TEXTS)
