"""Reads event files with TensorBoard's own reader."""

import pytest


def read_events(folder):
    """The values of an event file by tag and step, as TensorBoard itself reads them, and the texts by tag."""
    accumulators = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs the extra [tensorboard]"
    )
    from tensorboard.util.tensor_util import make_ndarray

    events = accumulators.EventAccumulator(str(folder)).Reload()
    tensors = {tag: events.Tensors(tag) for tag in events.Tags()["tensors"]}
    texts = {tag: make_ndarray(tensors.pop(tag)[0].tensor_proto).item() for tag in list(tensors) if "text" in tag}
    return {
        tag: {row.step: make_ndarray(row.tensor_proto).item() for row in rows} for tag, rows in tensors.items()
    }, texts
