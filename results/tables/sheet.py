"""Tables as cells of text: the columns of a table, the one style of its numbers, and the lines that explain them."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from results import names
from results.experiments import ArmCost, Experiment, load_experiment
from results.records.identity import EXAMPLES_NAME
from results.records.printing import printable
from results.stats import FEW_SEEDS, Interval, corrected_signs, mean_over_tasks, supported_ranks
from results.tables.rows import LIMITED, MINI, OLD, WARNED, Group, Row, Table, arm_titles, verdict

EMPTY = "-"
MARK = "†"  # fewer than FEW_SEEDS seeds
UNCLEAR = "¶"  # an interval that excludes zero, where Holm's correction does not
FEW_SEEDS_NOTE = f"{MARK} fewer than {FEW_SEEDS} seeds in an arm"
GAIN = "gain, 95 % interval"
WIDTH = 100  # characters of a table as text, if its titles can be cut
ALWAYS_SHOWN = 25  # characters of a title
TWO_LINES = (", 95 %", ",\n95 %")  # of headers as text
VERDICT = " to paper's"  # the end of the headers of verdicts
BAND = "band: our estimate, from scores that others reached with these heads; see paper/scores.toml"
NO_INTERVAL = (
    f"{EXAMPLES_NAME} is missing, does not give the scores or has other test examples in the other arm, and seeds "
    "alone need two in an arm; or all scores are equal, so that nothing says how far off the gain is"
)
RANKED = (
    "mean gain: in points, with the tasks of the file as a sample of tasks, of which seeds and examples are the lower "
    "levels. Ranks: those that all pairwise differences support, after Holm's correction for all pairs of a column, so "
    "that in 95 % of columns none is wrong. Frontier: nothing at most as slow has a higher mean gain"
)
SCORES = "scores in percent, mean±std (number of seeds)"
MARKS = {
    MARK: f"fewer than {FEW_SEEDS} seeds",
    OLD: "an older recipe of the task",
    LIMITED: "more epochs may raise it",
    WARNED: "a declared warning",
    UNCLEAR: "not after Holm's correction",
}
KINDS = {  # of findings: the heading above all of them, one of them, and several
    "failed": ("Failed runs", "failed run", "failed runs"),
    "empty": ("Empty cells", "line on empty cells", "lines on empty cells"),
    "seeds": ("Missing seeds", "line on missing seeds", "lines on missing seeds"),
    "unreadable": ("Not read", "file that cannot be read", "files that cannot be read"),
    "note": ("Warnings", "warning", "warnings"),
}
Column = tuple[str, str, Sequence[str]]  # header, "l" or "r" for its alignment, cells
Sections = Sequence[tuple[str, Sequence[str]]]  # text below a table: (title, lines)


@dataclass(frozen=True)
class Sheet:
    """A table as cells of text.

    Attributes:
        title: What it shows.
        columns: Its columns, all of one length.
        best: Column and line of the scores that are better than all others of their row beyond noise, where asked for.
    """

    title: str
    columns: Sequence[Column]
    best: Collection[tuple[int, int]] = ()

    @property
    def headers(self) -> list[str]:
        """The headers of the columns."""
        return [header for header, _, _ in self.columns]

    @property
    def widths(self) -> list[int]:
        """The characters that each column needs as text."""
        return [widest([header.replace(*TWO_LINES), *cells]) for header, _, cells in self.columns]

    @property
    def lines(self) -> list[tuple[str, ...]]:
        """The cells of each line."""
        return list(zip(*(cells for _, _, cells in self.columns), strict=True))


def widest(cells: Iterable[str]) -> int:
    """The characters of the longest line in these cells."""
    return max(len(line) for cell in cells for line in cell.split("\n"))


def sheet_of(title: str, columns: Sequence[Column], always: int = 1) -> Sheet:
    """The sheet without empty columns, of which the first ones stay; control characters are escaped."""
    kept = [one for number, one in enumerate(columns) if number < always or any(cell != EMPTY for cell in one[2])]
    safe = [(printable(header), align, list(map(printable, cells))) for header, align, cells in kept]
    return Sheet(printable(title), safe)


def sheets_of(table: Table, wide: bool = False, best: bool = False, cut: bool = True) -> list[Sheet]:
    """The sheets of a table: the main one, and of all records, if `wide`, those under other settings.

    `best` finds what `Sheet.best` has, which takes time. `cut` shortens titles to what a terminal has room for.
    """
    if table.experiment.by_arm:
        return [arms_sheet(table, best=best)]
    if table.experiment.name:
        title = f"{table.experiment.title}: {SCORES}"
        return [gains_sheet(table, [*table.rows, *table.others], title, table.arms, wide=wide, best=best)]
    arms = table.arms if wide else table.compared
    shown = {f"Test {SCORES}": table.rows, **({"Other settings": table.others} if wide and table.others else {})}
    sheets = [gains_sheet(table, rows, title, arms, wide=wide, best=best) for title, rows in shown.items()]
    return list(map(_shortened, sheets)) if cut and not wide else sheets


def best_arm(row: Row, arms: Sequence[str]) -> str | None:
    """The one of these arms whose difference from each other one has an interval above zero, if there is one."""
    groups = [group for arm in arms if (group := shown_group(row, arm))]
    best, *others = [group.features for group in sorted(groups, key=lambda group: -group.mean)] or [""]
    return best if others and all(row.comparing(other, best).sign > 0 for other in others) else None


def gains_sheet(
    table: Table, rows: Sequence[Row], title: str, arms: Sequence[str], *, wide: bool, best: bool = False
) -> Sheet:
    """A line for each row: the scores of these arms, the gain, and the paper's scores.

    Args:
        table: What the rows are of.
        rows: The rows to show.
        title: The title of the sheet.
        arms: The arms to show.
        wide: Whether to show the metric, p, the errors removed, and the differences from the paper's scores.
        best: Whether to find the best scores.
    """
    titles = [row.title for row in rows]
    columns: list[Column] = [("task", "l", titles)]
    columns += [metric_column(rows)] if wide or len(set(titles)) < len(titles) else []
    first = len(columns)
    columns += score_columns(table, rows, arms)
    always = len(columns)
    gain, *more = gain_columns(rows)
    columns += [gain, *(more if wide else []), *paper_columns(table, rows, arms, wide=wide)]
    lines = {line: best_arm(row, arms) for line, row in enumerate(rows) if best}
    places = {(first + arms.index(arm), line) for line, arm in lines.items() if arm}
    return replace(sheet_of(title, columns, always), best=places)


def _shortened(sheet: Sheet) -> Sheet:
    """The sheet with titles as far as a table of `WIDTH` has room for them."""
    (header, align, titles), *others = sheet.columns
    room = max(WIDTH - sum(2 + width for width in sheet.widths[1:]), ALWAYS_SHOWN)
    short = [title if len(title) <= room else f"{title[: room - 1]}…" for title in titles]
    return replace(sheet, columns=[(header, align, short), *others])


def metric_column(rows: Sequence[Row]) -> Column:
    """The metric of each row, with its split if that is not the test set."""
    cells = [f"{row.spec.split} {row.metric_title() or EMPTY}".removeprefix("test ") for row in rows]
    return "metric", "l", cells


def score_columns(table: Table, rows: Sequence[Row], arms: Sequence[str]) -> list[Column]:
    """The scores of these arms; of the first that is compared, the baseline that the gain is over."""
    titles = {**arm_titles(arms, [group for row in rows for group in row.groups]), **table.experiment.titles}
    return [(titles[arm], "l", [shown_score(shown_group(row, arm)) for row in rows]) for arm in arms]


def shown_group(row: Row, arm: str) -> Group | None:
    """The group of an arm; of the first that is compared, the baseline that the gain is over."""
    return row.pair[0] if row.pair and arm == row.compared[0] else row.group(arm)


def gain_columns(rows: Sequence[Row]) -> list[Column]:
    """The gain, its p, and the share of errors that it removes."""
    return [
        (GAIN, "l", list(map(shown_gain, rows))),
        ("p", "l", [shown_p(row.interval) for row in rows]),
        ("errors removed, 95 % interval", "l", list(map(shown_cut, rows))),
    ]


def paper_columns(table: Table, rows: Sequence[Row], arms: Sequence[str], *, wide: bool) -> list[Column]:
    """The paper's scores of these arms, and if wide, how ours compare; none where other arms are compared than its."""
    if not (table.experiment.name or table.with_paper):
        return []
    printed = [arm for arm in arms if any(arm in row.printed for row in rows)]
    columns: list[Column] = [("paper", "l", [_paper(row, printed) for row in rows])]
    if not wide:
        return columns
    first, second = table.compared
    cuts = [row.paper.error_cut(row.compared) if row.paper and row.paper.compared else None for row in rows]
    if len(printed) > 2:
        pairs = [(row.printed, {first, second} <= row.printed.keys()) for row in rows]
        gains = [f"{scores[second] - scores[first]:+.2f}" if both else EMPTY for scores, both in pairs]
        columns.append(("paper's gain", "l", gains))
    columns.append(("it removed", "l", [EMPTY if cut is None else f"{cut:.1f} %" for cut in cuts]))
    for title, arm in zip([heading for heading, _, _ in score_columns(table, rows, printed)], printed, strict=True):
        columns.append((title + VERDICT, "l", [str(verdict(row.group(arm), row.paper) or EMPTY) for row in rows]))
    if table.with_paper:
        columns.append(("baseline to the band", "l", list(map(_to_band, rows))))
    return columns


def _paper(row: Row, arms: Sequence[str]) -> str:
    scores = [str(row.printed.get(arm, EMPTY)) for arm in arms]
    return " → ".join(scores) if any(arm in row.printed for arm in arms) else EMPTY


def _to_band(row: Row) -> str:
    """The baseline's distance to the band that others reached with larger vectors."""
    band, baseline = names.load_paper().expected(row.data, row.task), row.group(row.compared[0])
    if band is None or baseline is None or baseline.partial:
        return EMPTY
    low, high = band.scores[row.compared[0]]
    away = names.distance(baseline.mean, (low, high))
    return f"{f'{away:+.2f} outside' if away else 'in'} {low} to {high}"


def arms_sheet(table: Table, best: bool = False) -> Sheet:
    """A line for each arm: its costs, and its score in every row with the interval of the difference to the first."""
    experiment, arms = table.experiment, table.arms
    columns: list[Column] = [("features", "l", [table.titles[arm] for arm in arms])]
    costs = [experiment.costs.get(arm) for arm in arms]
    columns += [
        ("frozen parameters", "r", [shown_parameters(cost) if cost else EMPTY for cost in costs]),
        ("ms per 1,000 tokens", "r", [shown_milliseconds(cost) if cost else EMPTY for cost in costs]),
    ]
    columns += [(header, "l", [cells.get(arm, EMPTY) for arm in arms]) for header, cells in table.columns.items()]
    columns += _mean_columns(table) if experiment.ranked else []
    for row in table.rows:
        intervals = {arm: table.against_base(row, arm).interval for arm in arms}
        signs, cells, ranks = corrected_signs(intervals), list[str](), dict[str, tuple[int, int]]()
        if experiment.ranked:
            pairs = combinations([group.features for group in row.groups], 2)
            ranks = supported_ranks({pair: row.comparing(*pair).interval for pair in pairs})
        for arm, interval in intervals.items():
            group = row.group(arm)
            parts = [f"{shown_score(group)}{MARK * group.few_seeds}"] if group else []
            if interval:
                parts.append(f"[{shown_interval(interval)}]{UNCLEAR * (interval.sign != signs[arm])}")
            parts += [f"rank {rank}"] if (rank := _shown_rank(ranks, arm)).isdigit() else []
            parts += [f"published {row.printed[arm]}"] if arm in row.printed else []
            cells.append(" ".join(parts) or EMPTY)
        columns.append((row.title, "l", cells))
    sheet = sheet_of(f"{experiment.title}: {SCORES}", columns)
    winners = {printable(row.title): best_arm(row, arms) for row in table.rows if best}
    return replace(sheet, best={(sheet.headers.index(row), arms.index(arm)) for row, arm in winners.items() if arm})


def _mean_columns(table: Table) -> list[Column]:
    """The mean gain over the rows of the file, ranks by it, and the arms that no other exceeds at no higher cost."""
    costs, base = table.experiment.costs, table.compared[0]
    rows = [row for row in table.rows if row.groups and row.spec in table.experiment.rows]
    whole = [arm for arm in table.arms if all(row.group(arm) for row in rows)]

    def gains(first: str, second: str) -> list[float]:
        return [gain for row in rows if (gain := row.comparing(first, second).gain) is not None]

    by_arm = {arm: gains(base, arm) if arm != base else [0.0] * len(rows) for arm in whole}
    by_arm = {arm: of_arm for arm, of_arm in by_arm.items() if len(of_arm) == len(rows) > 1}
    ranks = supported_ranks({pair: mean_over_tasks(gains(*pair)) for pair in combinations(by_arm, 2)})
    means = {arm: statistics.fmean(of_arm) for arm, of_arm in by_arm.items()}
    cells = {arm: with_interval(f"{means[arm]:+.2f}", mean_over_tasks(of_arm)) for arm, of_arm in by_arm.items()}
    cells[base] = EMPTY
    priced = [(costs[arm].milliseconds, means[arm], arm) for arm in by_arm if arm in costs]
    front = [arm for cost, mean, arm in priced if not any(less <= cost and more > mean for less, more, _ in priced)]
    return [
        (f"mean gain over {len(rows)} tasks, 95 % interval", "l", [cells.get(arm, EMPTY) for arm in table.arms]),
        ("rank", "l", [_shown_rank(ranks, arm) for arm in table.arms]),
        ("frontier", "l", ["yes" if arm in front else EMPTY for arm in table.arms]),
    ]


def _shown_rank(ranks: Mapping[str, tuple[int, int]], arm: str) -> str:
    """A rank, or a range of ranks; none if any rank is possible."""
    low, high = ranks.get(arm, (1, len(ranks)))
    return EMPTY if high - low + 1 >= len(ranks) else f"{low}" if low == high else f"{low} to {high}"


def shown_parameters(cost: ArmCost) -> str:
    """Frozen parameters in millions."""
    return f"{cost.parameters / 1e6:.1f} M"


def shown_milliseconds(cost: ArmCost) -> str:
    """Milliseconds for 1,000 tokens."""
    return f"{cost.milliseconds:,.{0 if cost.milliseconds >= 10 else 1}f}"


def shown_score(group: Group | None, scores: Sequence[float] | None = None) -> str:
    """Mean, standard deviation and number of the group's scores, by default the main ones, with its marks."""
    scores = group.scores if group and scores is None else scores
    if not group or not scores:
        return EMPTY
    std = f"±{statistics.stdev(scores):.2f}" if len(scores) > 1 else ""
    return f"{statistics.fmean(scores):.2f}{std} ({len(scores)}){group.marks}"


def shown_gain(row: Row) -> str:
    """The gain with its interval."""
    return EMPTY if row.gain is None else with_interval(f"{row.gain:+.2f}", row.interval)


def shown_cut(row: Row) -> str:
    """The share of errors that the gain removes, with its interval."""
    return EMPTY if row.error_cut is None else with_interval(f"{row.error_cut:.1f} %", row.cut_interval, sign="-")


def with_interval(number: str, interval: Interval | None, sign: str = "+") -> str:
    """A number and, after a comma, its interval, if there is one."""
    return ", ".join(filter(None, [number, shown_interval(interval, sign)]))


def shown_interval(interval: Interval | None, sign: str = "+") -> str:
    """Both ends, with a mark where an arm has few seeds; empty if there is no interval."""
    if interval is None:
        return ""
    low, high = (format(end, f"{sign}.1f") for end in interval.ends)
    return f"{low} to {high}{MARK * interval.few_seeds}"


def shown_p(interval: Interval | None) -> str:
    """The p-value with three digits."""
    if interval is None:
        return EMPTY
    return "<0.001" if interval.p < 0.001 else f"{interval.p:.3f}"


def sections_of(table: Table, sheets: Sequence[Sheet]) -> list[tuple[str, list[str]]]:
    """All that is to be said below the sheets of a table: findings by kind, marks, and explanations."""
    sections = [
        (title, [" ".join(finding.text.split()) for finding in table.findings if finding.kind == kind])
        for kind, (title, _, _) in KINDS.items()
    ]
    sections.append(("Notes", [*marks_in(table, sheets), *explanations(table)]))
    return [(title, list(map(printable, lines))) for title, lines in sections if lines]


def note_line(table: Table, sheets: Sequence[Sheet], option: str = "--notes") -> str:
    """The findings and explanations of a table in one line: the marks, how many there are, and what shows them all."""
    numbers = Counter[str](finding.kind for finding in table.findings)
    in_order = [(numbers[kind], one, many) for kind, (_, one, many) in KINDS.items()]
    counts = [f"{number} {one if number == 1 else many}" for number, one, many in in_order if number]
    explained = len(explanations(table))
    counts += [f"{explained} explanation{'s' * (explained > 1)}"] * bool(explained)
    shows = [f"{', '.join(counts)}: {option} shows them"] * bool(counts)
    fill = [finding.text for finding in table.findings if finding.kind in ("empty", "seeds") and table.experiment.name]
    return printable("; ".join([*arms_note(table.main_arms, table.rows), *marks_in(table, sheets), *shows, *fill]))


def marks_in(table: Table, sheets: Sequence[Sheet]) -> list[str]:
    """The marks that these sheets have, each with its meaning; warnings that features declare are quoted."""
    shown = "".join(cell for sheet in sheets for line in sheet.lines for cell in line)
    groups = [group for row in [*table.rows, *table.others] for group in row.groups]
    declared = "; ".join(dict.fromkeys(text for group in groups for text in group.warnings))
    return [f"{mark} {declared if mark == WARNED else text}" for mark, text in MARKS.items() if mark in shown]


def explanations(table: Table) -> list[str]:
    """The explanations of the numbers of a table."""
    experiment, rows = table.experiment, [*table.rows, *table.others]
    lines = [*arms_note(table.main_arms, rows), *filter(None, [experiment.note])]
    lines += [f"needed first: {need}" for need in experiment.needs]
    lines += [trials_text(experiment)] if experiment.trials else []
    compared = [(row, table.against_base(row, arm)) for row in rows for arm in table.arms] if experiment.by_arm else []
    times = Counter(row.title for row in rows)
    pairs = compared or [(row, row) for row in rows]
    metrics = dict(zip(map(id, rows), metric_column(rows)[2], strict=True))
    titles = [f"{row.title}, {metrics[id(row)]}" if times[row.title] > 1 else row.title for row, _ in pairs]
    lines += interval_legend([(name, pair.interval) for name, (_, pair) in zip(titles, pairs, strict=True)])
    if experiment.by_arm:
        lines.append(f"[low to high]: the 95 % interval of the difference to {table.titles[table.compared[0]]}")
    lines += [RANKED] * experiment.ranked
    if unknown := [row.title for row in rows if row.pair and not row.interval]:
        lines.append(f"no interval ({', '.join(unknown)}): {NO_INTERVAL}")
    lines += names.controls_legend(arm for arm in table.arms if any(row.group(arm) for row in rows))
    lines += [BAND] * (table.with_paper and any(_to_band(row) != EMPTY for row in rows))
    sources = [f"{row.title}: {row.spec.source}" for row in rows if row.spec.paper and row.spec.source]
    lines += [f"the paper's scores are from {'; '.join(sources)}"] * bool(sources)
    anchors = {row.task_title: names.load_paper().anchor_text(row.data, row.task) for row in rows}
    lines += [f"{task}: {text}" for task, text in anchors.items() if text and not experiment.name]
    return [*lines, "what columns and marks mean: results/reading.md"]


def arms_title(main_arms: Mapping[str, str], rows: Sequence[Row]) -> list[str]:
    """The displayed settings of the two main arms; none if none of these rows is on a full data set.

    Args:
        main_arms: These settings.
        rows: What is shown; if one names another value of them, the text says so.
    """
    full_size = [row for row in rows if row.data != MINI]
    named = {key for row in full_size for key in (*row.shown_names, *row.settings)}
    unless = ", unless a row names others" if named & main_arms.keys() else ""
    return [f"{names.settings_title(main_arms)}{unless}"] if main_arms and full_size else []


def arms_note(main_arms: Mapping[str, str], rows: Sequence[Row]) -> list[str]:
    """The line below a table of these rows that has `arms_title`, if there is one."""
    return [f"on full data sets: {title}" for title in arms_title(main_arms, rows)]


def trials_text(experiment: Experiment) -> str:
    """The number of settings that were tried on dev before, by task and arm."""
    cells = load_experiment(experiment.trials).cells
    without_seed = dict.fromkeys((cell.identity.row, cell.arm, tuple(cell.overrides[1:])) for cell in cells)
    tried: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (row, arm), number in Counter((row, arm) for row, arm, _ in without_seed).items():
        tried[row].append(f"{names.arm_title(arm)} {number}")
    listed = "; ".join(f"{names.task_title(*row)}: {', '.join(arms)}" for row, arms in tried.items())
    first, second = map(names.arm_title, names.default_pair())
    return (
        f"settings tried on dev before (experiment={experiment.trials}): {listed}; other rows: none. Arms with frozen "
        f"layers take the setting of {second}, others that of {first}"
    )


def interval_legend(intervals: Sequence[tuple[str, Interval | None]]) -> list[str]:
    """Explains intervals, given with the names of their rows."""
    known = [(name, interval) for name, interval in intervals if interval]
    one_seed = "each arm has one seed, no arm of the task has three, and other seeds may differ by more"
    texts = {
        "examples and seeds": "over paired test examples, and over the seeds of both arms",
        "examples": f"over paired test examples; {one_seed}",
        "seeds": "over seeds alone, because scores of single examples are not known",
    }
    rows = {over: [name for name, interval in known if interval.over == over] for over in texts}
    several = sum(map(bool, rows.values())) > 1
    lines = []
    for over in (over for over, titles in rows.items() if titles):
        what = f"95 % intervals and p{_named(rows[over]) * several}: {texts[over]}"
        lines.append(f"{what}. They do not cover another training of the biLM")
    for unit in dict.fromkeys(interval.unit for _, interval in known if interval.unit):
        of_unit = [(name, interval) for name, interval in known if interval.unit == unit and not interval.clusters]
        if unknown := [name for name, interval in of_unit if interval.over not in ("seeds", "folds")]:
            lines.append(
                f"examples of one {unit} count as independent{_named(unknown)}, because these records do not say which "
                f"{unit} an example is of: the intervals may be too narrow"
            )
    return lines


def _named(names: Iterable[str]) -> str:
    """The names in brackets, each once."""
    return f" ({'; '.join(dict.fromkeys(names))})"
