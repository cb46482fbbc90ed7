"""SVG output of figures: in the page with light and dark colours, as a file with light ones on a white card.

Files do not follow the reader's colour scheme: GitHub's may differ from the system's, and other programs do not know
CSS variables. The white background keeps them readable on a dark page.
"""

from html import escape

from results.report.figures import PALETTE, WIDTH, Box, ChartLine, Dot, Figure, Label, Mark

TITLE_ROOM = 34.0  # pixels above the drawing for the title, which only files have


def inline_svg(figure: Figure) -> str:
    """The drawing for the page, without its title: the page has it as a heading."""
    marks = "".join(_mark(mark, in_page=True) for mark in figure.marks)
    return (
        f'<svg viewBox="0 0 {WIDTH:g} {figure.height:g}" role="img" '
        f'aria-label="{escape(f"{figure.title}. {figure.caption}")}">{marks}</svg>'
    )


def standalone_svg(figure: Figure) -> str:
    """The drawing as a file, with its title."""
    marks = "".join(_mark(mark, in_page=False) for mark in with_title(figure).marks)
    height = figure.height + TITLE_ROOM
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:g}" height="{height:g}" '
        f'viewBox="0 {-TITLE_ROOM:g} {WIDTH:g} {height:g}" font-family="system-ui, sans-serif">'
        f"<desc>{escape(figure.caption)}</desc>"
        f'<rect y="{-TITLE_ROOM:g}" width="100%" height="100%" fill="{PALETTE["card"][0]}"/>{marks}</svg>\n'
    )


def with_title(figure: Figure) -> Figure:
    """The figure with its title above the drawing, at negative y."""
    title = Label(0, 16 - TITLE_ROOM, figure.title, "ink", 14, bold=True)
    return Figure(figure.name, figure.title, figure.caption, figure.height, [title, *figure.marks])


def _mark(mark: Mark, in_page: bool) -> str:
    colour = f"var(--{mark.colour})" if in_page else PALETTE[mark.colour][0]
    if isinstance(mark, Label):
        weight = ' font-weight="600"' if mark.bold else ""
        anchor = "" if mark.anchor == "start" else f' text-anchor="{mark.anchor}"'
        place = f'x="{mark.x:.1f}" y="{mark.y:.1f}" font-size="{mark.size:g}"'
        halo = "var(--card)" if in_page else PALETTE["card"][0]  # keeps text readable on top of lines
        style = f"fill:{colour};stroke:{halo};stroke-width:{mark.halo:g}px;paint-order:stroke;stroke-linejoin:round"
        return f'<text {place}{anchor}{weight} style="{style}">{escape(mark.text)}</text>'
    title = f"<title>{escape(mark.title)}</title>" if mark.title else ""
    faint = f' opacity="{mark.opacity:.2g}"' if mark.opacity != 1 else ""
    if isinstance(mark, ChartLine):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in mark.points)
        dashes = ' stroke-dasharray="4 3"' if mark.dashed else ""
        style = f'fill="none" stroke-width="{mark.width:g}" stroke-linejoin="round" stroke-linecap="round"'
        return f'<polyline points="{points}" {style}{dashes}{faint} style="stroke:{colour}">{title}</polyline>'
    if isinstance(mark, Box):
        place = f'x="{mark.x:.1f}" y="{mark.y:.1f}" width="{max(mark.width, 0):.1f}" height="{mark.height:.1f}" rx="2"'
        return f'<rect {place}{faint} style="fill:{colour}">{title}</rect>'
    return f'<path d="{_outline(mark)}"{faint} style="fill:{colour}">{title}</path>'


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
    s = 1.2 * r
    return f"M{x:.1f},{y - s:.1f}l{s:.1f},{1.8 * s:.1f}h{-2 * s:.1f}z"
