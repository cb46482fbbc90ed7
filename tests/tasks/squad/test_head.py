"""BiDAF with self-attention against numpy, one passage at a time; span search against enumeration."""

import math

import numpy as np
import pytest
import torch

from tasks.squad.task import BiAttention, BidafSelfAttention, SelfAttention, SquadSettings, Trilinear, best_spans
from tasks.task import Batch, FeatureBatch


def softmax(scores):
    shifted = np.exp(scores - scores.max())
    return shifted / shifted.sum()


def mask_of(lengths):
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def text_of(lengths, dim, output_dim, seed):
    """Random features of sentences of these lengths, with rubbish where there are none."""
    draw = torch.Generator().manual_seed(seed)
    vectors = torch.randn(len(lengths), max(lengths), dim + output_dim, generator=draw)
    parts = vectors[..., :dim], vectors[..., :0], vectors[..., dim:]
    return FeatureBatch(*parts, mask_of(lengths), torch.tensor(lengths))


def alone(text, i, more=0):
    """One sentence of a batch, followed by some padding."""
    n = int(text.lengths[i])
    pad = (0, 0, 0, more)
    parts = (text.input, text.hidden, text.output)
    rows = [torch.nn.functional.pad(values[i : i + 1, :n], pad, value=9.0) for values in parts]
    return FeatureBatch(*rows, torch.arange(n + more)[None] < n, text.lengths[i : i + 1])


def batch_of(spans):
    places = max(map(len, spans))
    padded = [[*gold, *[(0, 1)] * (places - len(gold))] for gold in spans]
    table = torch.tensor(padded)
    meant = torch.tensor([[i < len(gold) for i in range(places)] for gold in spans])
    return Batch([], (), {"starts": table[..., 0], "ends": table[..., 1] - 1, "meant": meant})


class TestTrilinear:
    def test_equals_the_loop(self):
        torch.manual_seed(0)
        similarity = Trilinear(4)
        x, y = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
        scores = similarity(x, y)
        for b in range(2):
            for i in range(3):
                for j in range(5):
                    joined = torch.stack([x[b, i], y[b, j], x[b, i] * y[b, j]])
                    assert scores[b, i, j].item() == pytest.approx((similarity.weights * joined).sum().item(), abs=1e-5)

    def test_starts_as_a_linear_layer_over_both_texts_and_their_product(self):
        bound = (3 * 200) ** -0.5
        assert 0.9 * bound < Trilinear(200).weights.abs().max() <= bound


class TestBiAttention:
    def test_equals_numpy_on_each_passage_alone(self):
        torch.manual_seed(1)
        attention = BiAttention(4)
        passage, question = torch.randn(2, 6, 4), torch.randn(2, 3, 4)
        lengths, words = [6, 4], [2, 3]
        out = attention(passage, question, mask_of(lengths), mask_of(words)).detach().numpy()
        w1, w2, w3 = attention.similarity.weights.detach().numpy()
        for b, (n, m) in enumerate(zip(lengths, words, strict=True)):
            x, q = passage[b, :n].numpy(), question[b, :m].numpy()
            scores = np.array([[w1 @ xi + w2 @ qj + w3 @ (xi * qj) for qj in q] for xi in x])
            wanted = softmax(scores.max(axis=1)) @ x
            for i in range(n):
                attended = softmax(scores[i]) @ q
                expected = np.concatenate([x[i], attended, x[i] * attended, x[i] * wanted])
                np.testing.assert_allclose(out[b, i], expected, atol=1e-5)


class TestSelfAttention:
    def test_equals_numpy_on_each_passage_alone(self):
        torch.manual_seed(2)
        attention = SelfAttention(4)
        assert attention.null.item() == -1.0
        with torch.no_grad():
            attention.null.fill_(0.3)
        passage, lengths = torch.randn(2, 5, 4), [5, 3]
        out = attention(passage, mask_of(lengths)).detach().numpy()
        w1, w2, w3 = attention.similarity.weights.detach().numpy()
        for b, n in enumerate(lengths):
            x = passage[b, :n].numpy()
            for i in range(n):
                others = [j for j in range(n) if j != i]
                mass = np.exp([w1 @ x[i] + w2 @ x[j] + w3 @ (x[i] * x[j]) for j in others])
                attended = (mass[:, None] * x[others]).sum(axis=0) / (mass.sum() + math.exp(0.3))
                np.testing.assert_allclose(out[b, i], np.concatenate([attended, x[i], attended * x[i]]), atol=1e-5)

    def test_a_token_without_others_attends_to_nothing(self):
        x = torch.randn(1, 1, 4)
        out = SelfAttention(4)(x, torch.ones(1, 1, dtype=torch.bool))
        assert torch.equal(out[0, 0], torch.cat([torch.zeros(4), x[0, 0], torch.zeros(4)]))


class TestBestSpans:
    @pytest.mark.parametrize("longest", [1, 3, 17])
    def test_equals_enumeration(self, longest):
        draw = torch.Generator().manual_seed(longest)
        start, end = torch.randn(40, 9, generator=draw), torch.randn(40, 9, generator=draw)
        first, last = best_spans(start, end, longest)
        for b in range(40):
            spans = [(i, j) for i in range(9) for j in range(i, min(i + longest, 9))]
            assert (first[b].item(), last[b].item()) == max(spans, key=lambda s: start[b, s[0]] + end[b, s[1]])


class TestHead:
    lengths, words = [7, 3, 1], [2, 4, 1]

    def head(self, output_dim=2, **settings):
        torch.manual_seed(3)
        return BidafSelfAttention(SquadSettings(hidden=4, **settings), 5, output_dim).eval()

    def features(self, output_dim=2):
        return [text_of(self.lengths, 5, output_dim, 1), text_of(self.words, 5, output_dim, 2)]

    @torch.no_grad()
    def test_a_span_has_the_probability_of_its_ends(self):
        head, features = self.head(), self.features()
        start, end = (scores.double().exp() for scores in head._scores(features))  # padding has none
        for b, ((first, past), shares) in enumerate(head.decode_with_probabilities(features, batch_of([[(0, 1)]] * 3))):
            expected = start[b, first] / start[b].sum() * end[b, past - 1] / end[b].sum()
            assert shares == pytest.approx([expected.item()], rel=1e-5)

    @pytest.mark.parametrize("output_dim", [0, 2])
    def test_padding_and_other_examples_do_not_matter(self, output_dim):
        head, features = self.head(output_dim), self.features(output_dim)
        with torch.no_grad():
            start, end = head._scores(features)
            spans = head.decode(features, batch_of([[(0, 1)]] * 3))
            for b, n in enumerate(self.lengths):
                for more in (0, 5):
                    one = [alone(text, b, more) for text in features]
                    for scores, theirs in zip(head._scores(one), (start, end), strict=True):
                        torch.testing.assert_close(scores[0, :n], theirs[b, :n])
                        assert (scores[0, n:] < -1e29).all()
                    assert head.decode(one, batch_of([[(0, 1)]])) == [spans[b]]
        for (first, past), n in zip(spans, self.lengths, strict=True):
            assert 0 <= first < past <= n

    @torch.no_grad()
    def test_equals_the_network_written_out_for_each_passage_alone(self):
        head, features = self.head(), self.features()
        start, end = head._scores(features)
        for b, n in enumerate(self.lengths):
            texts = [alone(text, b) for text in features]
            read = [torch.cat([head.encoder.rnn(text.input)[0], text.output], dim=-1) for text in texts]
            x = head.joined(head.attention(*read, *(text.mask for text in texts))).clamp(min=0)
            x = x + head.matched(head.self_attention(head.matcher.rnn(x)[0], texts[0].mask)).clamp(min=0)
            starting = head.start_reader.rnn(x)[0]
            ending = head.end_reader.rnn(torch.cat([x, starting], dim=-1))[0]
            torch.testing.assert_close(start[b, :n], head.start(starting)[0, :, 0])
            torch.testing.assert_close(end[b, :n], head.end(ending)[0, :, 0])

    def test_dropout_takes_whole_dimensions_of_each_part_but_not_of_what_joins_the_output(self):
        torch.manual_seed(3)
        head = BidafSelfAttention(SquadSettings(hidden=40, dropout=0.5), 5, 20).train()
        read = {}
        for name in ("attention", "matcher", "self_attention", "start_reader"):
            part = getattr(head, name)
            part.register_forward_pre_hook(lambda _, given, name=name: read.update({name: given[0][0]}))
        head._scores([text_of([30], 5, 20, 1), text_of([4], 5, 20, 2)])
        states, joined = read.pop("attention").split([80, 20], dim=-1)  # (tokens, dim)
        assert not (joined == 0).any()
        for name, values in {"attention": states, **read}.items():
            gone = (values == 0).all(dim=0).float().mean().item()
            assert 0.25 < gone < 0.75, name

    def test_loss_is_the_probability_of_all_places_that_may_be_meant(self):
        head, features = self.head(), self.features()
        gold = [[(1, 3), (4, 7)], [(0, 2)], [(0, 1)]]
        with torch.no_grad():
            start, end = (scores.double().numpy() for scores in head._scores(features))
            loss = head.loss(features, batch_of(gold)).item()
        expected = 0.0
        for b, spans in enumerate(gold):
            n = self.lengths[b]
            expected -= math.log(sum(softmax(start[b, :n])[first] for first, _ in spans))
            expected -= math.log(sum(softmax(end[b, :n])[past - 1] for _, past in spans))
        assert loss == pytest.approx(expected / 3, rel=1e-5)

    def test_spans_are_no_longer_than_allowed(self):
        head = self.head(longest=2)
        features = [text_of([60] * 20, 5, 2, 5), text_of([3] * 20, 5, 2, 6)]
        with torch.no_grad():
            spans = head.decode(features, batch_of([[(0, 1)]] * 20))
        assert {past - first for first, past in spans} <= {1, 2}

    def test_a_thousand_tokens_take_memory_for_pairs_of_tokens_only(self):
        """The largest tensor, forth and back, has one number for each pair of tokens (and for the null), not 180."""
        from torch.utils._python_dispatch import TorchDispatchMode

        class Largest(TorchDispatchMode):
            numbers = 0

            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                out = function(*args, **(kwargs or {}))
                for value in out if isinstance(out, tuple | list) else (out,):
                    if isinstance(value, torch.Tensor):
                        Largest.numbers = max(Largest.numbers, value.numel())
                return out

        torch.manual_seed(4)
        attention, tokens = SelfAttention(180), 1000
        joint = BiAttention(180)
        x = torch.randn(1, tokens, 180, requires_grad=True)
        question = torch.randn(1, 30, 180)
        mask = torch.ones(1, tokens, dtype=torch.bool)
        with Largest():
            out = attention(x, mask).sum() + joint(x, question, mask, torch.ones(1, 30, dtype=torch.bool)).sum()
            out.backward()
        assert tokens * tokens <= Largest.numbers <= tokens * (tokens + 1)
        assert torch.isfinite(x.grad).all()
