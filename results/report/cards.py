"""Run cards of the report: the content of each record on demand, and failed runs with their tracebacks."""

from collections.abc import Mapping, Sequence
from html import escape

from elmo.common.durations import duration
from results.analysis.names import arm_title, metric_title, old_recipe, settings_title, task_title
from results.records.collect import FoundRecord
from results.records.identity import flattened, shown
from results.records.record import RunRecord
from results.report.score_table import Place

MOST_CARDS = 400  # 2.5 kB each


def failure_cards(failed: Sequence[FoundRecord]) -> str:
    """The error and the last lines of the traceback of each failed run."""
    cards = []
    for item in failed:
        error = item.record.error
        assert error is not None  # a failed run has one
        trace = f"<pre>{escape(chr(10).join(error.traceback))}</pre>" if error.traceback else ""
        cards.append(
            f'<article class="card failed"><h3>{escape(_task(item.record))}: {_run_title(item.record)}</h3>'
            f'<p class="reason">{escape(f"{error.type}: {error.message}")}</p>{trace}'
            f'<p class="path">{escape(str(item.path))}</p></article>'
        )
    return "\n".join(cards)


def run_cards(runs: Sequence[FoundRecord], places: Mapping[str, Place]) -> str:
    """The runs by data and task, each with a card that opens on demand.

    In a large grid each run has only a line, with the path of its record.

    Args:
        runs: The records.
        places: Task -> where its runs belong, for the page's filter.
    """
    rows: dict[tuple[str, str], list[FoundRecord]] = {}
    for item in runs:
        rows.setdefault(item.record.identity.row, []).append(item)
    many = len(runs) > MOST_CARDS
    blocks = [f"<p>Cards are shown for up to {MOST_CARDS} runs; choose some with --runs and --data.</p>"] * many
    for (data, task), items in rows.items():
        cards, name = "\n".join(map(_run_line if many else _run_card, items)), _task(items[0].record)
        place = places.get(task, Place(-1, ""))
        find = Place(place.task, f"{place.words} {name} {data}").attributes
        title = f"{escape(name)} <small>{counted(len(items))}</small>"
        blocks.append(f'<details class="runs" {find}><summary>{title}</summary>{cards}</details>')
    return "\n".join(blocks)


def counted(runs: int) -> str:
    """The number of runs, as text."""
    return "1 run" if runs == 1 else f"{runs:,} runs"


def _run_line(item: FoundRecord) -> str:
    return f'<p class="run">{_run_title(item.record)} <span class="path">{escape(str(item.path))}</span></p>'


def _task(record: RunRecord) -> str:
    return task_title(record.identity.data, record.identity.task, record)


def _run_title(record: RunRecord) -> str:
    settings = settings_title(record.identity.typed_variant)
    arm = f"{arm_title(record.identity.features, record)}{record.identity.in_fold}"
    name = ", ".join(filter(None, [arm, settings, old_recipe(record), f"seed {record.identity.seed}"]))
    scored = f"{record.score:.2f} {metric_title(record.metric, record)}" if record.status == "finished" else ""
    return f"{escape(name)} <small>{escape(scored or record.status)}</small>"


def _run_card(item: FoundRecord) -> str:
    """What is needed to audit a score; unknown facts are left out."""
    record, environment = item.record, item.record.environment
    scores = [
        f"{split} {metric_title(name, record)} {score:.2f}"
        for split, by_metric in record.scores.items()
        for name, score in by_metric.items()
    ]
    facts: dict[str, str | None] = {
        "scores": ", ".join(scores),
        "time": None if record.seconds is None else duration(record.seconds),
        "peak memory": None if record.peak_memory_mb is None else f"{record.peak_memory_mb:,.0f} MB",
        "epochs": str(len(record.epochs)) if record.epochs else None,
        "started": record.started_at,
        "finished": record.finished_at,
    }
    if environment:
        changed = ", with uncommitted changes" if environment.dirty else ""
        versions = ", ".join(f"{name} {version}" for name, version in environment.packages.items())
        facts["commit"] = f"{environment.commit}{changed}" if environment.commit else "not recorded"
        facts["device"] = f"{environment.device}, threads {environment.threads}, {environment.platform}"
        facts["versions"] = f"Python {environment.python}, {versions}"
    facts |= {"fingerprint": record.fingerprint, "record": str(item.path)}
    listed = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in facts.items() if value)
    settings = "\n".join(f"{key}={shown(value)}" for key, value in sorted(flattened(record.config).items()))
    hashed = flattened({key: value for key, value in record.fingerprinted.items() if key != "settings"})
    # Hashes are not shortened, so that they can be compared.
    hashes = "\n".join(f"{key}={v if isinstance(v, str) else shown(v)}" for key, v in hashed.items() if v is not None)
    return (
        f'<details class="run"><summary>{_run_title(record)}</summary>'
        f"<dl>{listed}</dl><details><summary>Configuration</summary><pre>{escape(settings)}</pre></details>"
        f"<details><summary>Hashes and recipes</summary><pre>{escape(hashes)}</pre></details></details>"
    )
