import itertools

import numpy as np
import pytest
import torch

from elmo import SIZES, InputError, random_bilm, save_bilm
from elmo.bilm.weight_files import WEIGHTS_SUFFIXES
from tasks.features.token_features import ElmoConfig, TokenFeatures, features_fingerprint
from tasks.features.words import CharacterCnn, CharactersConfig, WordsConfig
from tasks.modules.layers import BiRnn
from tasks.modules.seeding import drawing_from, initialise, named_seed
from tasks.ner import BiLstmCrf, NerSettings
from tests.tasks.making import features_config, words_only

TRAIN = [("The", "cat", "sat", "."), ("Dogs", "bark", "!"), ("I", "am", "unheard", "of")]
OTHER = [("The", "unicorn", "sat", "on", "a", "mat"), ("Zxqwv",), ("dogs", "BARK", "!"), TRAIN[0]]
TINY_DIM = random_bilm("tiny", 0).dim


def features_of(config, train=TRAIN, seed=1):
    return TokenFeatures(config, train, seed).eval()


class TestWidths:
    @pytest.mark.parametrize(
        ("places", "widths"),
        [
            (None, (6 + 8, 0, 0)),
            (["input"], (6 + 8 + TINY_DIM, 0, 0)),
            (["output"], (6 + 8, 0, TINY_DIM)),
            (["input", "output"], (6 + 8 + TINY_DIM, 0, TINY_DIM)),
            (["hidden"], (6 + 8, TINY_DIM, 0)),
        ],
    )
    def test_places(self, places, widths):
        features = features_of(features_config(places))
        assert tuple(features.widths.values()) == widths
        batch = features(TRAIN)
        for vectors, width in zip((batch.input, batch.hidden, batch.output), widths, strict=True):
            assert vectors.shape == (3, 4, width)
        assert batch.lengths.tolist() == [4, 3, 4]
        assert batch.mask.tolist() == [[True] * 4, [True] * 3 + [False], [True] * 4]

    @pytest.mark.parametrize(
        ("settings", "expected"),
        [
            ({"words": None}, 8 + TINY_DIM),
            ({"characters": None}, 6 + TINY_DIM),
            ({"words": None, "characters": None}, TINY_DIM),
        ],
    )
    def test_any_part_may_be_left_out(self, settings, expected):
        features = features_of(features_config(**settings))
        assert features.widths["input"] == features(TRAIN).input.shape[-1] == expected

    @pytest.mark.parametrize("places", [None, ["output"]])
    def test_nothing_at_the_input_is_an_error(self, places):
        with pytest.raises(InputError, match="keep at least one"):
            features_of(features_config(places, words=None, characters=None))

    @pytest.mark.parametrize("places", [[], ["middle"], ["input", "middle"]])
    def test_unknown_places(self, places):
        with pytest.raises(
            InputError, match=r"features\.elmo\.places: expected some of input, hidden, output, each once, found"
        ):
            features_of(features_config(places))

    def test_pretrained_vectors_bring_their_width(self, vectors):
        assert features_of(words_only(vectors, dim=50)).widths["input"] == 3


class TestElmo:
    def test_is_elmo_of_the_same_sentences(self):
        """Each place holds the average of the biLM's layers, times gamma: what an untrained mix gives."""
        features = features_of(features_config(["input", "output"]))
        batch = features(OTHER)
        layers = random_bilm("tiny", 0).layers(OTHER)
        np.testing.assert_allclose(batch.input[..., 14:].detach(), layers.mean(dim=0), atol=1e-6)
        np.testing.assert_allclose(batch.output.detach(), layers.mean(dim=0), atol=1e-6)

    def test_penalty(self):
        features = features_of(features_config(["input", "output"]))
        with torch.no_grad():
            for mix in features.elmo.mixes.values():
                mix.scalars.copy_(torch.tensor([1.0, 2.0, 3.0]))
        assert features.penalty().item() == pytest.approx(2 * 0.001 * (1 + 4 + 9))
        assert float(features_of(features_config(None)).penalty()) == 0

    def test_untrained_takes_the_shape_of_weights_and_nothing_else(self, tmp_path):
        bilm = random_bilm("tiny", 7)
        save_bilm(bilm, tmp_path / "weights.safetensors")
        path = str(tmp_path / "weights.safetensors")
        trained = features_of(features_config(elmo=ElmoConfig(weights=path)))
        untrained = features_of(features_config(elmo=ElmoConfig(weights=path, untrained=True)))
        other = features_of(features_config(elmo=ElmoConfig(weights=path, untrained=True, untrained_seed=1)))
        assert trained.elmo.source.fingerprint() == bilm.fingerprint()
        assert untrained.elmo.source.fingerprint() == random_bilm("tiny", 0).fingerprint()
        assert other.elmo.source.fingerprint() == random_bilm("tiny", 1).fingerprint()

    def test_untrained_takes_the_options_of_shipped_weights_before_those_of_their_size(self):
        """The shipped biLM does not clip, the size of the same name does: arms may differ in knowledge alone."""
        trained, untrained = (
            features_of(features_config(elmo=ElmoConfig(weights="small", untrained=untrained))).elmo.source.source
            for untrained in (False, True)
        )
        assert untrained.options == trained.options != SIZES["small"]
        assert untrained.fingerprint() != trained.fingerprint()

    def test_the_run_s_seed_does_not_change_an_untrained_bilm(self):
        first, second = (features_of(features_config(), seed=seed).elmo.source.fingerprint() for seed in (1, 2))
        assert first == second

    @pytest.mark.parametrize(("layers", "index"), [("last", 2), ("0", 0), ("1", 1)])
    def test_single_layers(self, layers, index):
        elmo = ElmoConfig(weights="tiny", untrained=True, layers=layers, precision="float32")
        features = features_of(features_config(elmo=elmo, words=None, characters=None))
        expected = random_bilm("tiny", 0).layers(TRAIN)[index]
        np.testing.assert_allclose(features(TRAIN).input.detach(), expected, atol=1e-6)


class TestWords:
    def test_pretrained_vectors_by_lower_case(self, vectors):
        batch = features_of(words_only(vectors))([("The", "Cat", "SAT")])
        assert batch.input[0].tolist() == [[0, 10, 100], [1, 10, 100], [2, 10, 100]]

    def test_pretrained_vectors_by_case(self, vectors):
        features = features_of(words_only(vectors, lowercase=False), [("The", "the")])
        assert features([("The", "the")]).input[0, :, 0].tolist() == [7, 0]

    def test_words_not_trained_on_get_their_vector_or_zeros(self, vectors):
        batch = features_of(words_only(vectors))([("unicorn", "Mat", "zxqwv")])
        assert batch.input[0].tolist() == [[5, 10, 100], [6, 10, 100], [0, 0, 0]]

    def test_without_vectors_words_not_trained_on_are_zeros(self):
        batch = features_of(words_only())([("cat", "unicorn")])
        assert batch.input[0, 0].abs().sum() > 0
        assert batch.input[0, 1].abs().sum() == 0

    def test_training_words_without_a_vector_are_drawn_like_the_others(self, vectors):
        features = features_of(words_only(vectors), [("the", "cat", *(f"new{i}" for i in range(2000)))])
        drawn = features([tuple(f"new{i}" for i in range(2000))]).input.detach()
        pretrained = torch.tensor([[0.0, 10, 100], [1, 10, 100]])
        assert float(drawn.mean()) == pytest.approx(float(pretrained.mean()), abs=3)
        assert float(drawn.std()) == pytest.approx(float(pretrained.std()), rel=0.05)

    def test_meeting_words_later_changes_no_earlier_vector(self, vectors):
        features = features_of(features_config(None, vectors=vectors))
        before = features(TRAIN).input
        features.meet(OTHER)
        features([("and", "mat", "unicorn")])
        assert torch.equal(features(TRAIN).input, before)
        late = features(OTHER).input
        fresh = features_of(features_config(None, vectors=vectors))
        fresh.meet(reversed(OTHER))
        assert torch.equal(fresh(OTHER).input, late)

    @pytest.mark.parametrize("trainable", [True, False])
    def test_only_training_words_are_trained(self, vectors, trainable):
        features = TokenFeatures(words_only(vectors, trainable=trainable), TRAIN, 1)
        features.meet(OTHER)
        names = [name for name, parameter in features.named_parameters() if parameter.requires_grad]
        assert names == (["words"] if trainable else [])
        distinct = {word.lower() for sentence in TRAIN for word in sentence}
        assert features.words.shape == (len(distinct), 3)

    def test_a_step_changes_the_words_of_its_batch_alone(self):
        features = TokenFeatures(words_only(), TRAIN, 1)
        before = features(TRAIN).input.detach()
        features([TRAIN[1]]).input.sum().backward()
        with torch.no_grad():
            features.words -= features.words.grad
        after = features(TRAIN).input.detach()
        assert torch.equal(after[0], before[0])
        assert not torch.equal(after[1, :3], before[1, :3])
        assert torch.equal(after[2], before[2])


class TestCharacters:
    def test_a_vector_is_the_maximum_over_windows(self):
        """Against the definition, in numpy."""
        cnn = CharacterCnn(CharactersConfig(4, 5, 3))
        ids = [258, *b"cat", 259]
        spelling = torch.tensor([[*ids, *[260] * 10]])
        weight, bias = cnn.convolution.weight.detach().numpy(), cnn.convolution.bias.detach().numpy()
        embedded = cnn.embedding.weight.detach().numpy()[ids]  # (characters, 4)
        windows = [np.einsum("fdw,wd->f", weight, embedded[i : i + 3]) + bias for i in range(3)]
        expected = np.maximum(np.max(windows, axis=0), 0)
        np.testing.assert_allclose(cnn(spelling, torch.tensor([5])).detach().numpy()[0], expected, atol=1e-6)

    @pytest.mark.parametrize("width", [1, 3, 5])
    def test_gradients_are_those_of_a_convolution(self, width):
        """Against torch's own convolution of the same embeddings."""
        torch.manual_seed(0)
        cnn = CharacterCnn(CharactersConfig(4, 6, width))
        spelling, lengths = torch.randint(256, (9, 12)), torch.full((9,), 12)  # windows end where words do
        factors = torch.randn(9, 6)
        (cnn(spelling, lengths) * factors).sum().backward()
        ours = {name: parameter.grad.clone() for name, parameter in cnn.named_parameters()}
        cnn.zero_grad()
        windows = cnn.convolution(cnn.embedding(spelling).transpose(1, 2))
        (torch.relu(windows.amax(dim=2)) * factors).sum().backward()
        for name, parameter in cnn.named_parameters():
            torch.testing.assert_close(ours[name], parameter.grad, atol=1e-5, rtol=1e-5)

    def test_spelling_matters_and_so_does_case(self):
        features = features_of(features_config(None, words=None))
        batch = features([("cat", "act", "Cat", "cat")]).input[0]
        assert torch.equal(batch[0], batch[3])
        assert not torch.allclose(batch[0], batch[1])
        assert not torch.allclose(batch[0], batch[2])

    @pytest.mark.parametrize("width", [1, 3, 6])
    def test_independent_of_padding(self, width):
        config = features_config(None, words=None, characters=CharactersConfig(4, 8, width))
        features = features_of(config)
        alone = features([("a", "cat")]).input[0]
        together = features([("a", "cat"), ("incomprehensibilities" * 5, "")]).input[0]
        assert torch.allclose(alone, together, atol=1e-6)


@pytest.mark.parametrize("places", [None, ["input"], ["input", "output"]])
def test_a_batch_of_one_equals_a_batch_of_eight(places, vectors):
    features = features_of(features_config(places, vectors=vectors))
    sentences = [*TRAIN, *OTHER, ("word",) * 30]
    together = features(sentences)
    for row, sentence in enumerate(sentences):
        alone = features([sentence])
        length = len(sentence)
        assert torch.allclose(together.input[row, :length], alone.input[0], atol=1e-5)
        assert torch.allclose(together.output[row, :length], alone.output[0], atol=1e-5)


class TestFingerprint:
    def test_vectors_and_weights(self, vectors):
        first = features_fingerprint(features_config(vectors=vectors))
        assert first["weights"] == random_bilm("tiny", 0).fingerprint()
        assert features_fingerprint(features_config(None)) == {"vectors": None, "weights": None}
        with open(vectors, "a") as file:
            file.write("more 1 2 3\n")
        second = features_fingerprint(features_config(vectors=vectors))
        assert second["vectors"] != first["vectors"]
        assert second["weights"] == first["weights"]

    @pytest.mark.parametrize("suffix", WEIGHTS_SUFFIXES)
    def test_it_follows_weights_that_are_replaced(self, tmp_path, suffix):
        """For each suffix: the hash is cached, and the options next to the weights stay as they are."""
        first, second = (tmp_path / name / f"weights{suffix}" for name in ("first", "second"))
        for seed, path in enumerate((first, second)):
            save_bilm(random_bilm("tiny", seed), path)
        config = ElmoConfig(weights=str(first))
        assert config.fingerprint() == random_bilm("tiny", 0).fingerprint()
        second.replace(first)
        assert config.fingerprint() == random_bilm("tiny", 1).fingerprint()


def test_the_texts_of_a_batch_go_through_the_bilm_once(monkeypatch):
    """Premises repeat, and a sentence may be premise and hypothesis; what was met is in memory."""
    features = features_of(features_config(["input", "output"]))
    features.meet(TRAIN[:1])
    premises, hypotheses = [TRAIN[0], TRAIN[1], TRAIN[1]], [TRAIN[2], TRAIN[1], OTHER[0]]
    expected = [features(text) for text in (premises, hypotheses)]
    bilm, runs = features.elmo.source.source, []
    compute = bilm.token_layers
    monkeypatch.setattr(bilm, "token_layers", lambda batch, state=None: runs.append(list(batch)) or compute(batch))
    together = features.vectors_of(features.find([premises, hypotheses]))
    for found, right in zip(together, expected, strict=True):
        torch.testing.assert_close((found.input, found.output), (right.input, right.output), rtol=0, atol=1e-6)
    assert runs == [[TRAIN[1], TRAIN[2], OTHER[0]]]
    assert [text.mask.shape for text in features_of(words_only()).find([premises, hypotheses])] == [(3, 4), (3, 6)]


def parameters_of(places, seed, vectors=None):
    """All parameters of features and head, by name."""
    features = TokenFeatures(features_config(places, vectors=vectors), TRAIN, seed)
    widths = [features.widths[place] for place in ("input", "output", "hidden")]
    head = BiLstmCrf(NerSettings(hidden=5), ["O", "S-PER"], *widths)
    initialise(head, seed, "head")
    return dict([*features.named_parameters("features"), *head.named_parameters("head")])


# Which parameters read [x_k; ELMo_k] and [h_k; ELMo_k]; a bias's range follows its layer's width.
INPUT = {"head.encoder.rnn.weight_ih_l0", "head.encoder.rnn.weight_ih_l0_reverse"}
OUTPUT = {"head.projection.weight", "head.projection.bias"}


class TestArmsStartEqual:
    """Same seed, same start: ELMo changes what reads it, and nothing else."""

    @pytest.mark.parametrize(
        ("places", "readers"),
        [(["input"], INPUT), (["output"], OUTPUT), (["input", "output"], INPUT | OUTPUT), (["hidden"], set())],
    )
    def test_but_for_what_reads_elmo(self, places, readers):
        baseline, elmo = parameters_of(None, 1), parameters_of(places, 1)
        assert len(baseline) > 15
        unequal = {name for name in baseline if not torch.equal(baseline[name], elmo[name])}
        assert unequal == readers

    def test_also_with_pretrained_vectors(self, vectors):
        baseline, elmo = parameters_of(None, 1, vectors), parameters_of(["input"], 1, vectors)
        assert torch.equal(baseline["features.words"], elmo["features.words"])

    def test_another_seed_starts_elsewhere(self):
        first, second = parameters_of(["input"], 1), parameters_of(["input"], 2)
        equal = {name for name in first if torch.equal(first[name], second[name])}
        assert all(name.startswith("features.elmo.") for name in equal)
        assert {name for name in first if name.startswith("features.elmo.")} == equal

    def test_whatever_was_drawn_before(self):
        first = parameters_of(["input"], 1)
        torch.rand(17)
        second = parameters_of(["input"], 1)
        assert all(torch.equal(first[name], second[name]) for name in first)

    def test_building_draws_nothing_from_the_global_generator(self):
        """But for the head, whose modules draw values that are replaced."""
        torch.manual_seed(3)
        TokenFeatures(features_config(words=WordsConfig(None), characters=None), TRAIN, 1)
        expected = torch.Generator().manual_seed(3)
        assert torch.equal(torch.rand(5), torch.rand(5, generator=expected))


class TestSeeds:
    def test_names_make_seeds_of_their_own(self):
        seeds = {named_seed(s, *names) for s in (1, 11) for names in (("a",), ("b",), ("a", 1), ("a", "b"), ("ab",))}
        assert len(seeds) == 10
        assert named_seed(1, "epoch", 3) == named_seed(1, "epoch", 3)
        assert named_seed(1, 1) != named_seed(11), "names are kept apart"

    def test_drawing_leaves_the_generator_as_it_was(self):
        torch.manual_seed(3)
        expected = torch.rand(2)
        torch.manual_seed(3)
        with drawing_from(1, "x"):
            first = torch.rand(2)
        assert torch.equal(torch.rand(2), expected)
        with drawing_from(1, "x"):
            assert torch.equal(torch.rand(2), first)


class TestDropout:
    sentences = (("a", "b", "c"),) * 50

    def test_that_of_the_features_is_for_the_input(self):
        config = features_config(["input", "output"], dropout=0.5)
        assert config.elmo.dropout == 0
        batch = TokenFeatures(config, self.sentences, 1).train()(self.sentences)
        assert (batch.input == 0).float().mean().item() == pytest.approx(0.5, abs=0.05)
        assert not (batch.output == 0).any()

    @pytest.mark.parametrize("shares", [(0.3, 0.0, 0.0), (0.0, 0.6, 0.0), (0.0, 0.0, 0.25)])
    def test_each_part_may_have_its_own(self, shares):
        words, characters, elmo = shares
        config = features_config(
            words=WordsConfig(None, dim=6, dropout=words),
            characters=CharactersConfig(4, 8, 3, dropout=characters),
            elmo=ElmoConfig(weights="tiny", untrained=True, dropout=elmo, precision="float32"),
        )
        features = TokenFeatures(config, self.sentences, 1)
        whole, dropped = features.eval()(self.sentences).input, features.train()(self.sentences).input
        zeros = (dropped == 0) & (whole != 0)  # a ReLU makes zeros too
        for part, share in zip((slice(6), slice(6, 14), slice(14, None)), shares, strict=True):
            found = zeros[..., part].sum() / (whole[..., part] != 0).sum()
            assert found.item() == pytest.approx(share, abs=0.06 if share else 0)

    @pytest.mark.parametrize("share", [0.0, 0.25])
    def test_that_of_elmo_is_the_one_that_was_asked_for(self, share):
        elmo = ElmoConfig(
            weights="tiny", untrained=True, places=["input", "output"], dropout=share, precision="float32"
        )
        batch = TokenFeatures(features_config(elmo=elmo), self.sentences, 1).train()(self.sentences)
        assert (batch.output == 0).float().mean().item() == pytest.approx(share, abs=0.05)


def test_parameters_of_the_same_shape_start_apart():
    layers = BiRnn(8, 4, 2)
    initialise(layers, 1, "head")
    for (one, first), (other, second) in itertools.combinations(layers.named_parameters(), 2):
        assert first.shape != second.shape or not torch.equal(first, second), (one, other)
