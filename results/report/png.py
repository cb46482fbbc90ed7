"""PNG output of figures, by matplotlib, which is imported only here."""

from importlib.util import find_spec
from pathlib import Path

from results.report.figures import PALETTE, WIDTH, Box, ChartLine, Figure, Label
from results.report.svg import TITLE_ROOM, with_title

PIXELS = 100.0  # of ours per inch; an inch has 72 points
SHARPNESS = 2.5  # pixels of the file for each of ours
MARGIN = 10.0
MARKERS = {"circle": "o", "square": "s", "diamond": "D", "triangle": "^"}


def can_paint() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def write_png(figure: Figure, path: Path) -> None:
    """Draws the figure with its title into a file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import withStroke

    points = 72 / PIXELS
    width, height = WIDTH + 2 * MARGIN, figure.height + TITLE_ROOM + 2 * MARGIN
    canvas = Canvas(figsize=(width / PIXELS, height / PIXELS), dpi=PIXELS * SHARPNESS, facecolor=PALETTE["card"][0])
    FigureCanvasAgg(canvas)
    axes = canvas.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-MARGIN, WIDTH + MARGIN)
    axes.set_ylim(figure.height + MARGIN, -TITLE_ROOM - MARGIN)
    for depth, mark in enumerate(with_title(figure).marks):
        colour = PALETTE[mark.colour][0]
        if isinstance(mark, Label):
            across = {"start": "left", "middle": "center", "end": "right"}[mark.anchor]
            weight = "bold" if mark.bold else "normal"
            text = mark.text.replace("$", r"\$")  # no formulas in names
            size = mark.size * points * 0.92  # matplotlib's font is wider than a browser's
            halo = [withStroke(linewidth=mark.halo * points, foreground=PALETTE["card"][0])] if mark.halo else []
            axes.text(
                mark.x, mark.y, text, color=colour, fontsize=size, ha=across, weight=weight, zorder=depth,
                path_effects=halo,
            )  # fmt: skip
        elif isinstance(mark, ChartLine):
            xs, ys = [x for x, _ in mark.points], [y for _, y in mark.points]
            style = "--" if mark.dashed else "-"
            line_width = mark.width * points
            axes.plot(xs, ys, style, color=colour, linewidth=line_width, alpha=mark.opacity, zorder=depth)
        elif isinstance(mark, Box):
            corner, size_of_box = (mark.x, mark.y), (max(mark.width, 0), mark.height)
            axes.add_patch(Rectangle(corner, *size_of_box, color=colour, alpha=mark.opacity, linewidth=0, zorder=depth))
        else:
            size = 2 * mark.radius * points * (0.9 if mark.shape in ("square", "diamond") else 1)
            axes.plot(
                [mark.x], [mark.y], MARKERS[mark.shape], color=colour, markersize=size, alpha=mark.opacity,
                markeredgewidth=0, zorder=depth,
            )  # fmt: skip
    canvas.savefig(path, format="png")
