"""Runs that kept their predictions, for the tests of results.examples."""

from dataclasses import replace

from results.records.example_scores import write_predictions
from results.records.identity import PREDICTIONS_NAME
from results.records.metric import Metric, Ratio
from tests.results.making import make_record, save

F1 = Metric([[Ratio({"tp": 200}, {"tp": 2, "fp": 1, "fn": 1})]], title="F1")
WORDS = ["Ada", "Lind", "left", "Oslo"]
PER = {"label": "PER", "text": "Ada Lind", "start": 0, "end": 2}
LOC = {"label": "LOC", "text": "Oslo", "start": 3, "end": 4}
ORG = {"label": "ORG", "text": "Oslo", "start": 3, "end": 4}
SHIPPED = {"shipped": True, "hub": None, "splits": {"test": ["ner/test.txt"]}}


def entities_run(runs, predicted, *, gold=(PER, LOC), kept=True, data=SHIPPED, test="cd" * 32, **options):
    """The folder of a run on sentences that are all alike; `predicted` has the spans of each."""
    record = make_record(50.0, data="mini", **options)
    record = replace(
        record,
        metrics={"f1": F1},
        config={**record.config, "data": data},
        fingerprinted={**record.fingerprinted, "data": {"test": test}},
    )
    scores, lines = [], []
    for number, spans in enumerate(predicted):
        tp = sum(span in gold for span in spans)
        scores.append({"tp": tp, "fp": len(spans) - tp, "fn": len(gold) - tp})
        sides = {"gold": {"entities": list(gold)}, "predicted": {"entities": list(spans)}}
        lines.append({"id": f"test.txt:{number}", "example": {"tokens": WORDS}, **sides})
    path = save(runs, record, scores)
    if kept:
        write_predictions(path.with_name(PREDICTIONS_NAME), record.fingerprint, lines)
    return path.parent
