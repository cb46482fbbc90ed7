"""SVG of figures: in the page with light and dark colours, or as a file with one colour scheme.

Files do not follow the reader's colour scheme: GitHub's may differ from the system's, and other programs do not know
CSS variables. The background keeps them readable on any page; `<picture>` chooses among several files of one figure.
"""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape

from results.analysis.names import Shape
from results.figures.axes import legend
from results.figures.marks import PALETTE, Area, Arm, Box, ChartLine, Dot, Figure, Label, Mark, Point
from results.records.printing import printable_on_pages, without_markup

VARIABLES = {name: f"var(--{name})" for name in PALETTE}
PHONE_WIDTH = 600  # pixels of a page: up to here the narrow form of a figure is shown
TITLE_SIZE, TITLE_LINE = 14.0, 20.0
_PLUS = ((1.2, -0.4), (1.2, 0.4), (0.4, 0.4), (0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4),
         (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4), (-0.4, -1.2), (0.4, -1.2), (0.4, -0.4))  # fmt: skip
# corners of markers around (0, 0) with radius 1; all have about the area of the circle
CORNERS: Mapping[Shape, Sequence[Point]] = {
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "diamond": ((0, -1.25), (1.25, 0), (0, 1.25), (-1.25, 0)),
    "triangle": ((0, -1.2), (1.2, 0.96), (-1.2, 0.96)),
    "plus": _PLUS,
    "cross": [((x - y) / math.sqrt(2), (x + y) / math.sqrt(2)) for x, y in _PLUS],
}


def with_legend(figure: Figure) -> Figure:
    """The figure with its legend above the drawing."""
    if not figure.legend:
        return figure
    marks = legend((arm, "dot") for arm in figure.legend)
    return _below(figure, marks, 10 + max(mark.y for mark in marks if isinstance(mark, Dot)))


def with_title(figure: Figure) -> Figure:
    """The figure with its title and its legend above the drawing, the title on as many lines as it needs."""
    lines = textwrap.wrap(figure.title, int((figure.width - 16) / (0.59 * TITLE_SIZE))) or [""]
    titles = [Label(8, 18 + i * TITLE_LINE, line, "ink", TITLE_SIZE, bold=True) for i, line in enumerate(lines)]
    return _below(with_legend(figure), titles, 14 + TITLE_LINE * len(lines))


def _below(figure: Figure, heading: Sequence[Mark], room: float) -> Figure:
    """The figure with these marks above it, in place of its legend."""
    marks = list(heading)
    for mark in figure.marks:
        if isinstance(mark, ChartLine | Area):
            marks.append(replace(mark, points=[(x, y + room) for x, y in mark.points]))
        elif isinstance(mark, Box | Dot | Label):
            marks.append(replace(mark, y=mark.y + room))
    return replace(figure, height=figure.height + room, marks=marks, legend=())


def inline_svg(figure: Figure) -> str:
    """The drawing for the page, without its title and legend: the page has them elsewhere."""
    marks = "".join(_drawn(mark, VARIABLES) for mark in figure.marks)
    return (
        f'<svg viewBox="0 0 {figure.width:g} {figure.height:g}" role="img" '
        f'aria-label="{escape(f"{figure.title}. {figure.description}")}">{marks}</svg>'
    )


def captioned(figure: Figure) -> str:
    """The drawing for the page, in a card with its caption."""
    return f'<figure class="card">{inline_svg(figure)}<figcaption>{escape(figure.caption)}</figcaption></figure>'


def both_forms(figure: Figure, caption: str) -> str:
    """The drawing for the page in the form that fits the screen, above the caption if there is one."""
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return (
        f'<figure class="card answers"><div class="wide">{inline_svg(figure)}</div>'
        f'<div class="narrow">{inline_svg(figure.narrow or figure)}</div>{below}</figure>'
    )


def swatch(arm: Arm) -> str:
    """The line and the marker of an arm, for the page's legend."""
    line, dot = ChartLine([(1, 8), (35, 8)], arm.colour, 2, arm.dash), Dot(18, 8, arm.colour, arm.shape, 5)
    drawn = _drawn(line, VARIABLES) + _drawn(dot, VARIABLES)
    return f'<svg viewBox="0 0 36 16" width="36" height="16" aria-hidden="true">{drawn}</svg>'


def standalone_svg(figure: Figure, *, dark: bool = False) -> str:
    """The drawing as a file, with its legend."""
    figure = with_legend(figure)
    colours = {name: pair[dark] for name, pair in PALETTE.items()}
    marks = "".join(_drawn(mark, colours) for mark in figure.marks)
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
    forms, schemes = ([figure, figure.narrow], (False, True)) if figure.narrow else ([figure], (False,))
    return {
        f"{form.name}{'-dark' * dark}.svg": standalone_svg(with_title(form), dark=dark)
        for form in forms
        for dark in schemes
    }


def picture(figure: Figure, folder: str) -> str:
    """The Markdown or HTML that shows a figure's published files on GitHub; `folder` is where they are."""
    place = f"{folder}/{escape(figure.name)}"
    text = escape(printable_on_pages(f"{figure.title}. Its numbers are in results/tables.md, and in the file itself."))
    if figure.narrow is None:
        return f"![{without_markup(figure.title)}]({folder}/{figure.name}.svg)"
    phone, dark = f"(max-width: {PHONE_WIDTH}px)", "(prefers-color-scheme: dark)"
    return (
        f'<picture>\n<source media="{phone} and {dark}" srcset="{place}-phone-dark.svg">\n'
        f'<source media="{phone}" srcset="{place}-phone.svg">\n<source media="{dark}" srcset="{place}-dark.svg">\n'
        f'<img src="{place}.svg" alt="{text}">\n</picture>'
    )


def _drawn(mark: Mark, colours: Mapping[str, str]) -> str:
    """The SVG element of a mark."""
    title = f"<title>{escape(mark.title)}</title>" if mark.title else ""
    more = f' opacity="{mark.opacity:.2g}"' * (mark.opacity != 1)
    if isinstance(mark, Label):
        weight = ' font-weight="600"' if mark.bold else ""
        anchor = "" if mark.anchor == "start" else f' text-anchor="{mark.anchor}"'
        place = f'x="{mark.x:.1f}" y="{mark.y:.1f}" font-size="{mark.size:g}"'
        halo = f"stroke:{colours['card']};stroke-width:{mark.halo:g}px"  # keeps text readable on top of lines
        style = f"fill:{colours[mark.colour]};{halo};paint-order:stroke;stroke-linejoin:round"
        return f'<text {place}{anchor}{weight}{more} style="{style}">{escape(mark.text)}</text>'
    if isinstance(mark, ChartLine):
        dashes = f' stroke-dasharray="{mark.dash}"' if mark.dash else ""
        style = f'fill="none" stroke-width="{mark.width:g}" stroke-linejoin="round" stroke-linecap="round"'
        style = f'{style}{dashes}{more} style="stroke:{colours[mark.colour]}"'
        return f'<polyline points="{_points(mark.points)}" {style}>{title}</polyline>'
    if isinstance(mark, Area):
        return f'<polygon points="{_points(mark.points)}"{more} style="fill:{colours[mark.colour]}">{title}</polygon>'
    if isinstance(mark, Box):
        place = f'x="{mark.x:.1f}" y="{mark.y:.1f}" width="{max(mark.width, 0):.1f}" height="{mark.height:.1f}" rx="2"'
        return f'<rect {place}{more} style="fill:{colours[mark.colour]}">{title}</rect>'
    assert isinstance(mark, Dot)
    x, y, r, colour = mark.x, mark.y, mark.radius, colours[mark.colour]
    corners = _points([(x + r * right, y + r * down) for right, down in CORNERS.get(mark.shape, ())])
    circle = f"M{x - r:.1f},{y:.1f}a{r:g},{r:g} 0 1,0 {2 * r:g},0a{r:g},{r:g} 0 1,0 {-2 * r:g},0z"
    style = f"fill:{colours['card']};stroke:{colour};stroke-width:2px" if mark.hollow else f"fill:{colour}"
    return f'<path d="{f"M{corners}z" if corners else circle}"{more} style="{style}">{title}</path>'


def _points(points: Iterable[Point]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
