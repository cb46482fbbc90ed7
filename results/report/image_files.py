"""PNG and PDF output of figures, by matplotlib, which is imported only here."""

from functools import partial
from importlib.util import find_spec
from pathlib import Path

from results.report.figures import PALETTE, Area, Box, ChartLine, Figure, Label, with_legend

PIXELS = 100.0  # of ours per inch; an inch has 72 points
SHARPNESS = 2.5  # pixels of a PNG for each of ours
MARGIN = 10.0
KINDS = ("png", "pdf")
MARKERS = {"circle": "o", "square": "s", "diamond": "D", "triangle": "^", "plus": "P", "cross": "X"}


def can_paint() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def write_images(figure: Figure, folder: Path) -> None:
    """Draws the figure without its title, which is for the caption, into a file of each kind."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure as Canvas
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import Stroke

    points = 72 / PIXELS
    figure = with_legend(figure)
    width, height = figure.width + 2 * MARGIN, figure.height + 2 * MARGIN
    canvas = Canvas(figsize=(width / PIXELS, height / PIXELS), dpi=PIXELS * SHARPNESS, facecolor=PALETTE["card"][0])
    axes = canvas.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-MARGIN, figure.width + MARGIN)
    axes.set_ylim(figure.height + MARGIN, -MARGIN)
    for depth, mark in enumerate(figure.marks):
        colour = PALETTE[mark.colour][0]
        if isinstance(mark, Label):
            across = {"start": "left", "middle": "center", "end": "right"}[mark.anchor]
            weight = "bold" if mark.bold else "normal"
            text = mark.text.replace("$", r"\$")  # no formulas in names
            size = mark.size * points * 0.92  # matplotlib's font is wider than a browser's
            write = partial(axes.text, mark.x, mark.y, text, fontsize=size, ha=across, weight=weight, zorder=depth)
            if mark.halo:  # a text of its own: texts with effects become outlines in a PDF
                halo = Stroke(linewidth=mark.halo * points, foreground=PALETTE["card"][0])
                write(path_effects=[halo])
            write(color=colour)
        elif isinstance(mark, ChartLine):
            xs, ys = [x for x, _ in mark.points], [y for _, y in mark.points]
            line_width = mark.width * points
            dashes = [float(length) / mark.width for length in mark.dash.split()]  # in widths of the line
            style = (0, dashes) if dashes else "-"
            axes.plot(xs, ys, linestyle=style, color=colour, linewidth=line_width, alpha=mark.opacity, zorder=depth)
        elif isinstance(mark, Area):
            xs, ys = [x for x, _ in mark.points], [y for _, y in mark.points]
            axes.fill(xs, ys, color=colour, alpha=mark.opacity, linewidth=0, zorder=depth)
        elif isinstance(mark, Box):
            corner, size_of_box = (mark.x, mark.y), (max(mark.width, 0), mark.height)
            axes.add_patch(Rectangle(corner, *size_of_box, color=colour, alpha=mark.opacity, linewidth=0, zorder=depth))
        else:
            size = 2 * mark.radius * points * (0.9 if mark.shape in ("square", "diamond") else 1)
            axes.plot(
                [mark.x], [mark.y], MARKERS[mark.shape], color=colour, markersize=size, alpha=mark.opacity,
                markerfacecolor=PALETTE["card"][0] if mark.hollow else colour,
                markeredgewidth=2 * points if mark.hollow else 0, zorder=depth,
            )  # fmt: skip
    with rc_context({"pdf.fonttype": 42}):  # publishers refuse matplotlib's default, Type 3 fonts
        for kind in KINDS:
            canvas.savefig(folder / f"{figure.name}.{kind}")
