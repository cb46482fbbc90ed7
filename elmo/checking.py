"""The check of a user's source: whether its layers can be stored and shared by runs, and how fast it is."""

import time
from itertools import accumulate

import torch
from torch import Tensor

from elmo.bilm.sentences import Sentence
from elmo.common.errors import InputError
from elmo.sources.source import FrozenSource, code_of, fingerprint_of, name_of, require_source
from elmo.store.cached_layers import HALF_OVERFLOWS, TOLERANCE, CachedLayers, largest_difference

_TEXT = """\
In 1906 the old harbour of San Francisco burned for three days , and nobody could say whose lamp had started it . " It
wasn't ours , " said Mrs. O'Neill-Müller ( aged 71 ) at https://example.org ; 数据 and 🙂 were not in use .
"""
_WORDS = _TEXT.split() * 2
SENTENCES: list[Sentence] = [tuple(_WORDS[start : start + 1 + start % 24]) for start in range(len(_WORDS) // 2)]


def check_source(source: FrozenSource, other: FrozenSource | None = None) -> str:
    """Checks a source as runs use it: shapes, determinism, independence of the batch, fingerprint. Takes seconds.

    Like a run, it turns off gradients and dropout of a source that is an nn.Module.

    Args:
        source: a `FrozenSource` of your own.
        other: the same source with other settings; if its layers differ, its fingerprint must differ, too.

    Returns:
        A line that says what the source is and how fast it is.

    Raises:
        InputError: what is wrong, a line for each problem, and what to do about it.
    """
    if isinstance(source, type):
        raise InputError(f"expected a source, such as {source.__name__}(...), found its class. Make an object of it")
    name = name_of(source)
    cached = CachedLayers(require_source(source, name))
    fingerprint = fingerprint_of(source)
    layers = cached.token_layers(SENTENCES)  # raises for a wrong shape
    started = time.perf_counter()
    again = cached.token_layers(SENTENCES)
    speed = 1e6 * (time.perf_counter() - started) / layers.shape[1]
    problems = []
    if not layers.isfinite().all():
        problems.append("expected finite numbers, found NaN or infinity. Check the weights")
    elif difference := _difference(again, layers):
        problems.append(
            f"expected the same layers twice, found a relative difference of {difference:.1g}. Draw numbers from a "
            "generator with a fixed seed, and keep nothing between calls"
        )
    elif (difference := _difference(*_alone_and_together(cached, layers))) > TOLERANCE:
        problems.append(
            "expected the layers of a sentence to depend on that sentence alone, found a relative difference of "
            f"{difference:.1g} between it alone and in a batch. Mask the padding, and use nothing of other sentences"
        )
    exact = source.token_layers(SENTENCES).detach()
    for number, width in enumerate(cached.widths):
        if not problems and _difference(exact[number : number + 1], layers[number : number + 1]):
            problems.append(f"expected layer {number} to repeat its first {width} values, see widths, found others")
    if fingerprint_of(source) != fingerprint:
        problems.append("expected one fingerprint, found another one after a call. Hash only what stays as it is")
    if other is not None and fingerprint_of(other) == fingerprint:
        layers_after = CachedLayers(other).token_layers(SENTENCES)
        if layers_after.shape != layers.shape or _difference(layers_after, layers):
            problems.append("expected another fingerprint for other layers, found the same. Hash all settings")
    if problems:
        raise InputError("\n".join(f"{name}: {problem}" for problem in problems))
    code = code_of(source)
    half = float(layers.abs().amax()) < HALF_OVERFLOWS
    return (
        f"{name}: {len(cached.widths)} layers of {cached.dim} values, the same twice and in any batch; fingerprint "
        f"{fingerprint[:12]}{f', with the code of {code[0]}' if code else ''}; {speed:.3g} ms for 1,000 tokens on "
        f"{exact.device}{'' if half else '; too large for float16: set precision: float32'}"
    )


def _alone_and_together(cached: CachedLayers, layers: Tensor) -> tuple[Tensor, Tensor]:
    """The layers of some sentences, each computed alone, and those of the same sentences in the batch."""
    ends = list(accumulate(map(len, SENTENCES)))
    some = range(0, len(SENTENCES), 7)
    alone = [cached.token_layers([SENTENCES[i]]) for i in some]
    together = [layers[:, ends[i] - len(SENTENCES[i]) : ends[i]] for i in some]
    return torch.cat(alone, dim=1), torch.cat(together, dim=1)


def _difference(actual: Tensor, expected: Tensor) -> float:
    """The largest relative difference of layers, (layers, tokens, dim)."""
    one, other = (layers.transpose(0, 1).flatten(1) for layers in (actual, expected))
    return largest_difference(one, other, [expected.shape[2]] * len(expected))
