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
        reason, lines = f"{error.type}: {error.message}", "\n".join(error.traceback)
        trace = f"<pre>{escape(lines)}</pre>" if lines else ""
        cards.append(
            f'<article class="card failed"><h3>{escape(_task(item.record))}: {_run_title(item.record)}</h3>'
            f'<p class="reason">{escape(reason)}</p>{trace}<p class="path">{escape(str(item.path))}</p></article>'
        )
    return "\n".join(cards)


def run_cards(found: Sequence[FoundRecord], places: Mapping[str, Place]) -> str:
    """The runs by data and task, each with a card that opens on demand.

    In a large grid each run has only a line, with the path of its record.

    Args:
        found: The records.
        places: Task -> where its runs belong, for the page's filter.
    """
    rows: dict[tuple[str, str], list[FoundRecord]] = {}
    for item in found:
        rows.setdefault(item.record.identity.row, []).append(item)
    blocks = []
    for (data, task), items in rows.items():
        cards = "\n".join(map(_run_card if len(found) <= MOST_CARDS else _run_line, items))
        name = _task(items[0].record)
        title = f"{escape(name)} <small>{counted(len(items))}</small>"
        own = places.get(task, Place(-1, ""))
        find = Place(own.task, f"{own.words} {name} {data}").attributes
        blocks.append(f'<details class="runs" {find}><summary>{title}</summary>{cards}</details>')
    if len(found) > MOST_CARDS:
        blocks.insert(0, f"<p>Cards are shown for up to {MOST_CARDS} runs; choose some with --runs and --data.</p>")
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
    record = item.record
    lines = "\n".join(f"{key}={shown(value)}" for key, value in sorted(flattened(record.config).items()))
    hashed = flattened({key: value for key, value in record.fingerprinted.items() if key != "settings"})
    # Hashes are not shortened, so that they can be compared.
    found = "\n".join(f"{key}={v if isinstance(v, str) else shown(v)}" for key, v in hashed.items() if v is not None)
    facts = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in _facts(item))
    return (
        f'<details class="run"><summary>{_run_title(record)}</summary>'
        f"<dl>{facts}</dl><details><summary>Configuration</summary><pre>{escape(lines)}</pre></details>"
        f"<details><summary>Hashes and recipes</summary><pre>{escape(found)}</pre></details></details>"
    )


def _facts(item: FoundRecord) -> list[tuple[str, str]]:
    """What is needed to audit a score; unknown facts are left out."""
    record, environment = item.record, item.record.environment
    scores = [
        f"{split} {metric_title(name, record)} {score:.2f}"
        for split, own in record.scores.items()
        for name, score in own.items()
    ]
    facts: list[tuple[str, str | None]] = [
        ("scores", ", ".join(scores)),
        ("time", None if record.seconds is None else duration(record.seconds)),
        ("peak memory", None if record.peak_memory_mb is None else f"{record.peak_memory_mb:,.0f} MB"),
        ("epochs", str(len(record.epochs)) if record.epochs else None),
        ("started", record.started_at),
        ("finished", record.finished_at),
    ]
    if environment:
        changed = ", with uncommitted changes" if environment.dirty else ""
        versions = ", ".join(f"{name} {version}" for name, version in environment.packages.items())
        facts += [
            ("commit", f"{environment.commit}{changed}" if environment.commit else "not recorded"),
            ("device", f"{environment.device}, threads {environment.threads}, {environment.platform}"),
            ("versions", f"Python {environment.python}, {versions}"),
        ]
    facts += [("fingerprint", record.fingerprint), ("record", str(item.path))]
    return [(key, value) for key, value in facts if value]
