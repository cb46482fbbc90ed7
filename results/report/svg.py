"""SVG output of figures: in the page with light and dark colours, or as a file with one colour scheme.

Files do not follow the reader's colour scheme: GitHub's may differ from the system's, and other programs do not know
CSS variables. The background keeps them readable on any page; `<picture>` chooses among several files of one figure.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from html import escape

from results.records.printing import printable_on_pages, without_markup
from results.report.figures import PALETTE, Area, Arm, Box, ChartLine, Dot, Figure, Label, Mark, with_legend, with_title

VARIABLES = {name: f"var(--{name})" for name in PALETTE}
PHONE_WIDTH = 600  # pixels of a page: up to here the narrow form of a figure is shown


def inline_svg(figure: Figure) -> str:
    """The drawing for the page, without its title and legend: the page has them elsewhere."""
    marks = "".join(_mark(mark, VARIABLES) for mark in figure.marks)
    return (
        f'<svg viewBox="0 0 {figure.width:g} {figure.height:g}" role="img" '
        f'aria-label="{escape(f"{figure.title}. {figure.description}")}">{marks}</svg>'
    )


def captioned(figure: Figure) -> str:
    """The drawing for the page, in a card with its caption."""
    return f'<figure class="card">{inline_svg(figure)}<figcaption>{escape(figure.caption)}</figcaption></figure>'


def swatch(arm: Arm) -> str:
    """The line and the marker of an arm, for the page's legend."""
    marks: list[Mark] = [
        ChartLine([(1, 8), (35, 8)], arm.colour, 2, dash=arm.dash),
        Dot(18, 8, arm.colour, arm.shape, 5),
    ]
    drawn = "".join(_mark(mark, VARIABLES) for mark in marks)
    return f'<svg viewBox="0 0 36 16" width="36" height="16" aria-hidden="true">{drawn}</svg>'


def standalone_svg(figure: Figure, *, dark: bool = False) -> str:
    """The drawing as a file, with its legend."""
    figure = with_legend(figure)
    colours = {name: pair[dark] for name, pair in PALETTE.items()}
    marks = "".join(_mark(replace(mark, arm=""), colours) for mark in figure.marks)  # only the page hides arms
    size = f'width="{figure.width:g}" height="{figure.height:g}"'
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {figure.width:g} {figure.height:g}" '
        'role="img" aria-labelledby="title desc" font-family="system-ui, sans-serif">'
        f'<title id="title">{escape(figure.title)}</title><desc id="desc">{escape(figure.description)}</desc>'
        f'<rect width="100%" height="100%" fill="{colours["card"]}"/>{marks}</svg>\n'
    )


def published_files(figure: Figure) -> dict[str, str]:
    """File name -> SVG with its title; a figure with a narrow form also has files for phones and dark pages."""
    if figure.narrow is None:
        return {f"{figure.name}.svg": standalone_svg(with_title(figure))}
    return {
        f"{own.name}{'-dark' * dark}.svg": standalone_svg(with_title(own), dark=dark)
        for own in (figure, figure.narrow)
        for dark in (False, True)
    }


def picture(figure: Figure, folder: str) -> str:
    """The Markdown or HTML that shows a figure's published files on GitHub; `folder` is where they are."""
    place, text = f"{folder}/{escape(figure.name)}", escape(printable_on_pages(f"{figure.title}. {figure.numbers}"))
    if figure.narrow is None:
        return f"![{without_markup(figure.title)}]({folder}/{figure.name}.svg)"
    phone, dark = f"(max-width: {PHONE_WIDTH}px)", "(prefers-color-scheme: dark)"
    return "\n".join(
        [
            "<picture>",
            f'<source media="{phone} and {dark}" srcset="{place}-phone-dark.svg">',
            f'<source media="{phone}" srcset="{place}-phone.svg">',
            f'<source media="{dark}" srcset="{place}-dark.svg">',
            f'<img src="{place}.svg" alt="{text}">',
            "</picture>",
        ]
    )


def _mark(mark: Mark, colours: Mapping[str, str]) -> str:
    colour, arm = colours[mark.colour], f' data-arm="{escape(mark.arm)}"' if mark.arm else ""
    if isinstance(mark, Label):
        weight = ' font-weight="600"' if mark.bold else ""
        anchor = "" if mark.anchor == "start" else f' text-anchor="{mark.anchor}"'
        place = f'x="{mark.x:.1f}" y="{mark.y:.1f}" font-size="{mark.size:g}"'
        halo = colours["card"]  # keeps text readable on top of lines
        style = f"fill:{colour};stroke:{halo};stroke-width:{mark.halo:g}px;paint-order:stroke;stroke-linejoin:round"
        return f'<text {place}{anchor}{weight}{arm} style="{style}">{escape(mark.text)}</text>'
    title = f"<title>{escape(mark.title)}</title>" if mark.title else ""
    more = (f' opacity="{mark.opacity:.2g}"' if mark.opacity != 1 else "") + arm
    if isinstance(mark, ChartLine):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in mark.points)
        dashes = f' stroke-dasharray="{mark.dash}"' if mark.dash else ""
        style = f'fill="none" stroke-width="{mark.width:g}" stroke-linejoin="round" stroke-linecap="round"'
        return f'<polyline points="{points}" {style}{dashes}{more} style="stroke:{colour}">{title}</polyline>'
    if isinstance(mark, Area):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in mark.points)
        return f'<polygon points="{points}"{more} style="fill:{colour}">{title}</polygon>'
    if isinstance(mark, Box):
        place = f'x="{mark.x:.1f}" y="{mark.y:.1f}" width="{max(mark.width, 0):.1f}" height="{mark.height:.1f}" rx="2"'
        return f'<rect {place}{more} style="fill:{colour}">{title}</rect>'
    style = f"fill:{colours['card']};stroke:{colour};stroke-width:2px" if mark.hollow else f"fill:{colour}"
    return f'<path d="{_outline(mark)}"{more} style="{style}">{title}</path>'


def _outline(dot: Dot) -> str:
    """The marker's path; all shapes have about the same area."""
    x, y, r = dot.x, dot.y, dot.radius
    if dot.shape == "circle":
        return f"M{x - r:.1f},{y:.1f}a{r:g},{r:g} 0 1,0 {2 * r:g},0a{r:g},{r:g} 0 1,0 {-2 * r:g},0z"
    if dot.shape == "square":
        s = 0.9 * r
        return f"M{x - s:.1f},{y - s:.1f}h{2 * s:.1f}v{2 * s:.1f}h{-2 * s:.1f}z"
    if dot.shape == "diamond":
        s = 1.25 * r
        return f"M{x:.1f},{y - s:.1f}l{s:.1f},{s:.1f}l{-s:.1f},{s:.1f}l{-s:.1f},{-s:.1f}z"
    if dot.shape in ("plus", "cross"):
        thick, corners = 0.4 * r, []
        for turn in range(4):
            angle = math.radians(90 * turn + 45 * (dot.shape == "cross"))
            for along, across in ((1.2 * r, -thick), (1.2 * r, thick), (thick, thick)):
                east = along * math.cos(angle) - across * math.sin(angle)
                south = along * math.sin(angle) + across * math.cos(angle)
                corners.append(f"{x + east:.1f},{y + south:.1f}")
        return f"M{'L'.join(corners)}z"
    s = 1.2 * r
    return f"M{x:.1f},{y - s:.1f}l{s:.1f},{1.8 * s:.1f}h{-2 * s:.1f}z"
