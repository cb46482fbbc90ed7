"""Charts of the weights that tasks give to the layers of a source: of one task, and of several."""

from collections.abc import Sequence

from results.analysis.panels import Panel, layer_name, mixes
from results.analysis.rows import Group
from results.report.charts.axes import LEFT, RIGHT, Arms, legend_of
from results.report.figures import Box, ChartLine, Dot, Figure, Label, Mark, Scale, fitted, text_width, tint


def layer_weights(panel: Panel, arms: Arms) -> Figure | None:
    """The weight of each layer by placement, as in the paper's Figure 2; None without learned mixes."""
    found = [(group, mixes(group)) for group in panel.groups]
    places = list(dict.fromkeys(place for _, own in found for place in own))
    users = [group.features for group, own in found if own]
    if not places:
        return None
    weights = [w for _, own in found for runs, _ in own.values() for run in runs for w in run]
    scale = Scale(0, max(0.5, *weights), 92, RIGHT - 42)
    marks: list[Mark] = []
    numbers = []
    y = 6.0
    for place in places:
        own_of = [(group, own[place]) for group, own in found if place in own]
        gammas = "gamma " + ", ".join(f"{gamma:.2f}" for _, (_, gamma) in own_of)
        y += 18
        marks.append(Label(LEFT, y, place, "ink", 12, bold=True))
        marks.append(Label(RIGHT, y, fitted(gammas, 260, 11), "muted", 11, "end"))
        counts = {len(runs[0]) for _, (runs, _) in own_of}
        layers = max(counts)
        top = y + 6
        for layer in range(layers):
            y += 8
            with_layer = [(group, runs) for group, (runs, _) in own_of if layer < len(runs[0])]
            marks.append(Label(LEFT, y + 6 + 5 * len(with_layer), layer_name(layer, layers), "muted", 12))
            for group, runs in with_layer:
                arm, each = arms[group.features], [run[layer] for run in runs]
                mean = sum(each) / len(each)
                title = f"{arm.title}, {place}, {layer_name(layer, layers)}: {mean:.3f}"
                numbers.append(f"{arm.title}, {place}, {layer_name(layer, layers)}: {mean:.2f}")
                marks.append(Dot(84, y + 5, arm.colour, arm.shape, 3.5, arm=arm.features))
                marks.append(Box(92, y, scale.at(mean) - 92, 10, arm.colour, 1.0, title, arm.features))
                ends = (scale.at(min(each)), y + 5), (scale.at(max(each)), y + 5)
                if len(each) > 1:
                    title = f"seeds: {min(each):.3f} to {max(each):.3f}"
                    marks.append(ChartLine(ends, "ink", 1.5, title=title, arm=arm.features))
                marks.append(Label(RIGHT, y + 9, f"{mean:.2f}", "muted", 11, "end", arm=arm.features))
                y += 13
        if len(counts) == 1:  # else it differs between arms
            even = scale.at(1 / layers)
            title = f"all layers alike: {1 / layers:.2f}"
            marks.append(ChartLine([(even, top), (even, y)], "muted", 1, title=title, dash="4 3"))
        y += 8
    marks.append(Label((scale.start + scale.end) / 2, y + 8, "weight of the layer", "muted", 11, "middle"))
    caption = "Weight of each biLM layer after the softmax, mean over seeds; thin line: their range; dashed: all alike."
    text, legend = "; ".join(numbers) + ".", legend_of(users, arms)
    return Figure(f"layers-{panel.stem}", panel.title, caption, y + 16, marks, numbers=text, legend=legend)


def layer_map(found: Sequence[tuple[str, Group]]) -> Figure | None:
    """The weight of each layer at each place for several tasks, the paper's Figure 2; None without learned mixes.

    Args:
        found: Groups with their titles; those without mixes are left out.
    """
    known = [(", ".join(filter(None, [title, group.old_recipe])), group, mixes(group)) for title, group in found]
    known = [(title, group, own) for title, group, own in known if own]
    if not known:
        return None
    layers: dict[str, int] = {}  # by place
    for _, _, own in known:
        for place, (runs, _) in own.items():
            layers[place] = max(layers.get(place, 0), len(runs[0]))
    gap, top, lane = 10.0, 34.0, 46.0
    width = (RIGHT - LEFT - gap * (len(layers) - 1)) / sum(layers.values())
    marks: list[Mark] = []
    numbers = []
    left = LEFT
    for place, count in layers.items():
        marks.append(Label(left + count * width / 2, 11, fitted(place, count * width), "ink", 12, "middle", bold=True))
        names = [fitted(layer_name(layer, count), width, 9) for layer in range(count)]
        marks += [Label(left + (j + 0.5) * width, 26, name, "muted", 9, "middle") for j, name in enumerate(names)]
        for lane_number, (title, _, own) in enumerate(known):
            runs, gamma = own.get(place, ([], 0.0))
            y = top + lane_number * lane + 18
            for layer, each in enumerate(zip(*runs, strict=True)):
                mean = sum(each) / len(each)
                text = f"{title}, {place}, {layer_name(layer, len(runs[0]))}: {mean:.3f}"
                numbers.append(text)
                text += f", runs {min(each):.3f} to {max(each):.3f}, gamma {gamma:.2f}"
                x = left + layer * width
                marks.append(Box(x + 1, y, width - 2, 22, "blue", tint(mean), text))
                bold = mean > 1 / len(runs[0])
                shown = fitted(f"{mean:.2f}", width, 11)
                marks.append(Label(x + width / 2, y + 15, shown, "ink", 11, "middle", bold, halo=0))
        left += count * width + gap
    for lane_number, (title, group, _) in enumerate(known):
        y, number = top + lane_number * lane + 13, len(group.runs)
        runs_text = "1 run" if number == 1 else f"{number} runs"
        marks.append(Label(LEFT, y, fitted(title, RIGHT - LEFT - text_width(runs_text, 11) - 8), "ink", 12))
        marks.append(Label(RIGHT, y, runs_text, "muted", 11, "end"))
    caption = "Weight of each layer after the softmax, mean over runs; bold: above an even share."
    height, numbered = top + lane * len(known) + 4, "; ".join(numbers) + "."
    return Figure("layer-weights", "Figure 2: weights of the layers", caption, height, marks, numbers=numbered)
