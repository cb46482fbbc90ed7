import json
import random

import h5py
import numpy as np
import pytest
import torch

import elmo.bilm.encoder
import elmo.bilm.model
import elmo.common.device
from elmo import SIZES, Bilm, BilmOptions, CarriedState, InputError, load_bilm, random_bilm
from elmo.bilm.encoder import WordMemory
from elmo.common.device import side_by_side
from tests.elmo import naive

SENTENCES = [
    ["The", "cat", "sat", "on", "the", "mat", "."],
    ["Yes"],
    ["The", "cat", "sat", "on", "the", "mat", "."],  # a duplicate
    [],
    ["Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft", "😀", "中文"],
    ["a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a", "a"],
    ["</S>", "in", "running", "text", "<S>"],
    [],
    ["and", "/", "or"],
]


@pytest.fixture(params=[True, False], ids=["skip", "no-skip"])
def made(request, tmp_path):
    options = naive.make_options(skip=request.param)
    tensors = naive.make_tensors(options, seed=7)
    return load_bilm(naive.write_model(tmp_path, options, tensors)), options, tensors


@pytest.fixture(scope="module")
def reference_bilm(reference):
    return load_bilm(reference / "lm_weights.hdf5")


@pytest.fixture(scope="module")
def reference_sentences(reference):
    """Three lists of ten sentences."""
    lists = json.loads((reference / "lm_embeddings_sentences.json").read_text(encoding="utf-8"))
    return [[sentence.split() for sentence in sentences] for sentences in lists]


def split(layers, sentences):
    """(layers, tokens, dim) -> one array a sentence."""
    return np.split(layers.numpy(), np.cumsum([len(s) for s in sentences])[:-1], axis=1)


def reference_differences(reference, bilm, lists, state):
    """The largest difference from bilm-tf's embeddings in each batch i = [sentence i of list 0, 1, 2]."""
    differences = []
    for i, batch in enumerate(zip(*lists, strict=True)):
        found = split(bilm.token_layers(batch, state), batch)
        for k, layers in enumerate(found):
            with h5py.File(reference / f"lm_embeddings_{k}.hdf5") as file:
                forward, backward = file[str(i)][...]
            expected = np.concatenate([forward, backward], axis=1)
            assert layers[-1].shape == expected.shape
            differences.append(float(np.abs(layers[-1] - expected).max()))
    return differences


@pytest.mark.parametrize("kernel", ["1", "0"])
def test_parity_with_bilm_tf(reference, reference_bilm, reference_sentences, kernel, monkeypatch):
    monkeypatch.setenv("ELMO_KERNEL", kernel)
    differences = reference_differences(reference, reference_bilm, reference_sentences, CarriedState())
    assert len(differences) == 30
    assert max(differences) < 1e-5


def test_stateless_layers_differ(reference, reference_bilm, reference_sentences):
    first, *later = np.reshape(reference_differences(reference, reference_bilm, reference_sentences, None), (10, 3))
    assert first.max() < 1e-5  # the first batch starts from zero either way
    assert all(batch.max() > 1e-3 for batch in later)


@pytest.mark.parametrize("kernel", ["1", "0"])
def test_equals_the_naive_bilm(made, kernel, monkeypatch):
    monkeypatch.setenv("ELMO_KERNEL", kernel)
    bilm, options, tensors = made
    found = split(bilm.token_layers(SENTENCES), SENTENCES)
    for words, layers in zip(SENTENCES, found, strict=True):
        expected, _ = naive.sentence_layers(tensors, options, words)
        assert layers.shape == (3, len(words), 12)
        np.testing.assert_allclose(layers, expected, atol=2e-5)


def test_skip_connections_change_the_top_layer_alone(tmp_path):
    tensors = naive.make_tensors(naive.make_options(), seed=7)
    with_skip, without = (
        load_bilm(naive.write_model(tmp_path / str(skip), naive.make_options(skip=skip), tensors)).token_layers(
            SENTENCES
        )
        for skip in (True, False)
    )
    torch.testing.assert_close(with_skip[:2], without[:2], rtol=0, atol=0)
    torch.testing.assert_close(with_skip[2], without[2] + without[1])


def test_carried_state_with_batches_that_shrink_and_grow(made):
    bilm, options, tensors = made
    draw = random.Random(1)
    batches = [[draw.choice(SENTENCES) for _ in range(size)] for size in (3, 1, 4, 2, 4, 5)]
    state, rows = CarriedState(), {}
    for batch in batches:
        found = split(bilm.token_layers(batch, state), batch)
        for row, (words, layers) in enumerate(zip(batch, found, strict=True)):
            expected, rows[row] = naive.sentence_layers(tensors, options, words, rows.get(row))
            np.testing.assert_allclose(layers, expected, atol=2e-5)


def test_carried_states_do_not_leak_into_each_other_or_into_stateless_calls(made):
    bilm, _, _ = made
    state = CarriedState()
    once = bilm.token_layers(SENTENCES, state)
    again = bilm.token_layers(SENTENCES, state)
    assert (once - again)[1:].abs().max() > 1e-3
    torch.testing.assert_close(bilm.token_layers(SENTENCES, CarriedState()), once, rtol=0, atol=0)
    torch.testing.assert_close(bilm.token_layers(SENTENCES), once, rtol=0, atol=0)


def assert_invariant(bilm, sentences, tolerance):
    """Checks that the layers of a sentence are the same alone, in any batch and in any order."""
    alone = [bilm.token_layers([words]).numpy() for words in sentences]
    draw = random.Random(0)
    worst = 0.0
    for size in (2, 3, 7, len(sentences)):
        order = draw.sample(range(len(sentences)), len(sentences))
        for at in range(0, len(order), size):
            numbers = order[at : at + size]
            # Every batch also gets an unrelated sentence.
            batch = [sentences[i] for i in numbers] + [[f"mate{at}"] * draw.randint(0, 9)]
            for i, layers in zip([*numbers, None], split(bilm.token_layers(batch), batch), strict=True):
                if i is not None and alone[i].size:
                    worst = max(worst, float(np.abs(layers - alone[i]).max()))
    assert worst <= tolerance
    assert all(np.abs(a[2]).max() > 0.1 for a in alone if a.size)  # values near zero would always be close


def test_invariance_on_the_reference_model(reference_bilm, reference_sentences):
    sentences = [words for sentences in reference_sentences for words in sentences]
    assert_invariant(reference_bilm, [*sentences, *SENTENCES], 1e-6)


def test_invariance_on_tiny_models(made):
    assert_invariant(made[0], SENTENCES, 5e-6)


def test_padded_layers_equal_the_tokens(made):
    bilm, _, _ = made
    padded = bilm.layers(SENTENCES)
    assert padded.shape == (3, len(SENTENCES), 12, 12)
    parts = split(bilm.token_layers(SENTENCES), SENTENCES)
    for row, (words, tokens) in enumerate(zip(SENTENCES, parts, strict=True)):
        assert np.array_equal(padded[:, row, : len(words)].numpy(), tokens)
        assert not padded[:, row, len(words) :].any()


def test_padded_layers_have_the_precision_of_the_weights():
    bilm, sentences = random_bilm("tiny", 1), [["a", "b"], ["c"]]
    single, double = bilm.layers(sentences), bilm.double().layers(sentences)
    assert double.dtype == torch.float64
    assert torch.allclose(single.double(), double, atol=1e-5)


@pytest.mark.parametrize("sentences", [[[]], [[], [], []], []])
def test_nothing_but_empty_sentences(made, sentences):
    bilm, _, _ = made
    assert bilm.token_layers(sentences).shape == (3, 0, 12)
    assert bilm.layers(sentences).shape == (3, len(sentences), 0, 12)


def test_empty_sentences_cost_nothing(made, monkeypatch):
    """A file of 100,000 empty lines took minutes."""
    monkeypatch.setattr(Bilm, "_read_all", None)  # must not be called
    assert made[0].token_layers([[]] * 100).shape == (made[0].n_layers, 0, made[0].dim)


def test_an_empty_sentence_still_moves_the_carried_state(made):
    # Its two marks are read, so the next sentence in its row starts from another state.
    bilm, options, tensors = made
    state = CarriedState()
    bilm.token_layers([[]], state)
    _, after = naive.sentence_layers(tensors, options, [])
    expected, _ = naive.sentence_layers(tensors, options, ["cat"], after)
    np.testing.assert_allclose(bilm.token_layers([["cat"]], state).numpy(), expected, atol=2e-5)


def test_no_clipping(tmp_path):
    options = naive.make_options(cell_clip=None, proj_clip=None)
    tensors = naive.make_tensors(options, seed=7)
    bilm = load_bilm(naive.write_model(tmp_path, options, tensors))
    expected, _ = naive.sentence_layers(tensors, options, SENTENCES[5])
    assert np.abs(expected).max() > 3.0
    np.testing.assert_allclose(bilm.token_layers([SENTENCES[5]]).numpy(), expected, atol=2e-5)


def test_each_distinct_word_is_encoded_once(made, monkeypatch):
    bilm, _, _ = made
    asked = []
    encode = bilm.encoder.encode_words
    monkeypatch.setattr(bilm.encoder, "encode_words", lambda words: asked.append(list(words)) or encode(words))
    bilm.token_layers(SENTENCES)
    assert len(asked) == 1
    assert sorted(asked[0]) == sorted({"<S>", "</S>", *(word for words in SENTENCES for word in words)})


def test_cached_words_have_the_same_bits(made, monkeypatch):
    bilm, _, _ = made
    expected = bilm.token_layers(SENTENCES)
    bilm.remember_words()
    asked = []
    encode = bilm.encoder.encode_words
    monkeypatch.setattr(bilm.encoder, "encode_words", lambda words: asked.extend(words) or encode(words))
    bilm.token_layers(SENTENCES[4:])
    assert torch.equal(bilm.token_layers(SENTENCES), expected)
    assert sorted(asked) == sorted({"<S>", "</S>", *(word for words in SENTENCES for word in words)})


@pytest.mark.parametrize("mode", [torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16)])
@pytest.mark.parametrize("kernel", ["0", "1"])
@pytest.mark.parametrize("size", ["tiny", BilmOptions(8, 4, filters=(), word_dim=8, words=("<UNK>", "the", "cat"))])
def test_inference_mode_and_autocast_change_nothing(mode, kernel, size, monkeypatch):
    monkeypatch.setenv("ELMO_KERNEL", kernel)
    bilm = random_bilm(size, seed=2)
    expected = bilm.token_layers(SENTENCES)
    bilm.remember_words()
    with mode():
        assert torch.equal(bilm.token_layers(SENTENCES[4:5]), random_bilm(size, seed=2).token_layers(SENTENCES[4:5]))
    assert torch.equal(bilm.token_layers(SENTENCES), expected)  # with words remembered in that mode


@pytest.mark.parametrize("kernel", ["0", "1"])
def test_another_default_type_or_device_changes_nothing(kernel, monkeypatch):
    monkeypatch.setenv("ELMO_KERNEL", kernel)
    bilm = random_bilm("tiny", seed=2)
    expected = bilm.token_layers(SENTENCES)
    with torch.device("meta"):  # as torch.set_default_device
        assert torch.equal(bilm.token_layers(SENTENCES), expected)
    torch.set_default_dtype(torch.float64)
    try:
        found = bilm.token_layers(SENTENCES)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(found, expected)


def test_two_threads_may_remember_words_at_once(monkeypatch):
    encoder = random_bilm("tiny", seed=2).encoder
    memory, encode = WordMemory(encoder), encoder.encode_words
    expected = dict(zip("abcd", encode(list("abcd")), strict=True))

    def overtaken(words):  # while one thread encodes words, another one encodes and remembers some of them
        monkeypatch.undo()
        memory.encode_words(["b", "c"])
        return encode(words)

    monkeypatch.setattr(encoder, "encode_words", overtaken)
    for words in (["a", "b"], ["d"], ["a", "b", "c", "d"]):
        assert torch.equal(memory.encode_words(words), torch.stack([expected[word] for word in words]))


def test_word_memory_beyond_its_limit():
    bilm = random_bilm("tiny", seed=2)
    memory = WordMemory(bilm.encoder, limit=5)
    words = [f"w{i}" for i in range(12)]
    assert torch.equal(memory.encode_words(words[:4]), bilm.encoder.encode_words(words[:4]))
    for some in (words, words[::-1], words[6:], words[2:3], []):
        assert torch.equal(memory.encode_words(some), bilm.encoder.encode_words(some))
    assert len(memory._row_of) == 4


def test_parallel_directions_have_the_same_bits(monkeypatch):
    bilm = random_bilm("tiny", seed=2)
    found = []
    for cores in (1, 2):
        monkeypatch.setattr(elmo.common.device, "available_cores", lambda cores=cores: cores)
        monkeypatch.setattr(elmo.bilm.encoder, "WORDS_AT_ONCE", 7)
        found.append(bilm.token_layers(SENTENCES))
    assert torch.equal(*found)


def test_many_cores_share_the_sentences_and_change_no_bit(monkeypatch):
    bilm = random_bilm("tiny", seed=2)
    expected = bilm.token_layers(SENTENCES * 5)
    jobs = []
    monkeypatch.setattr(elmo.bilm.model, "side_by_side", lambda some: (jobs.append(len(some)), side_by_side(some)))
    for module in (elmo.bilm.model, elmo.common.device):
        monkeypatch.setattr(module, "at_once", lambda: 6)
    assert torch.equal(bilm.token_layers(SENTENCES * 5), expected)
    assert jobs == [6]  # both directions of 15 sentences each
    carried = CarriedState(), CarriedState()
    torch.testing.assert_close(bilm.token_layers(SENTENCES * 5, carried[0]), expected, rtol=0, atol=0)
    again = bilm.token_layers(SENTENCES * 5, carried[0])
    monkeypatch.undo()
    bilm.token_layers(SENTENCES * 5, carried[1])
    assert torch.equal(bilm.token_layers(SENTENCES * 5, carried[1]), again)


@pytest.mark.parametrize("kernel", ["1", "0"])
@pytest.mark.parametrize("size", ["tiny", "small"])
def test_on_a_cpu_a_sentence_has_the_same_bits_in_any_batch_with_any_threads(size, kernel, monkeypatch):
    """The store relies on this: it must not matter in which batch a sentence was first embedded."""
    monkeypatch.setenv("ELMO_KERNEL", kernel)
    draw = random.Random(1)
    bilm = random_bilm(size, seed=4)
    words = ["".join(draw.choices("abcdefgh", k=draw.choice((1, 1, 2, 4, 7, 30)))) for _ in range(60)]
    sentences = [tuple(draw.choices(words, k=length)) for length in (1, 1, 2, 3, 5, 5, 9, 17, 30, *[8] * 30)]
    expected = dict(zip(sentences, split(bilm.token_layers(sentences), sentences), strict=True))
    threads = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            for batch_size in (1, 2, 3, 9, 20):
                batch = draw.sample(sentences, batch_size)
                for sentence, layers in zip(batch, split(bilm.token_layers(batch), batch), strict=True):
                    assert np.array_equal(layers, expected[sentence]), f"{len(sentence)} tokens among {batch_size}"
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize(
    ("size", "published", "dim"),
    [("small", 13_593_312, 256), ("medium", 28_027_744, 512), ("original", 93_600_864, 1024)],
)
def test_parameter_counts(size, published, dim):
    with torch.device("meta"):
        bilm = Bilm(SIZES[size])
    # The published counts include one more embedding row, for padded positions.
    assert sum(parameter.numel() for parameter in bilm.parameters()) == published - 16
    assert bilm.dim == dim
    assert bilm.n_layers == 3


def test_random_bilms():
    one, same, other = (random_bilm("tiny", seed=seed) for seed in (1, 1, 2))
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()
    assert random_bilm(SIZES["tiny"], seed=1).fingerprint() == one.fingerprint()
    layers = one.token_layers([["some", "words"]])
    assert layers.shape == (3, 2, 16)
    assert (layers[:, 0] - layers[:, 1]).abs().amin(dim=1).max() > 0
    assert torch.isfinite(layers).all()
    with pytest.raises(InputError, match="unknown biLM size 'huge'; expected one of tiny, small"):
        random_bilm("huge", seed=1)


def test_an_untrained_bilm_keeps_the_scale_of_its_inputs():
    """Uniform weights of variance 1 / inputs, and highways that pass most of their input through: sigmoid(-2)."""
    for name, weight in random_bilm("tiny", seed=1).named_parameters():
        if name.endswith("carry.bias"):
            assert (weight == -2).all()
        elif not name.endswith(("bias", "characters.weight")):
            largest = weight.abs().max() * (weight[0].numel() / 3) ** 0.5
            assert 0.9 < largest <= 1, name


def test_random_bilms_do_not_change_the_global_random_state():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    random_bilm("tiny", seed=1)
    assert torch.equal(torch.rand(3), expected)


def test_the_fingerprint_follows_weights_and_options(tmp_path):
    tensors = naive.make_tensors(naive.make_options(), seed=7)
    bilm = load_bilm(naive.write_model(tmp_path / "a", naive.make_options(), tensors))
    clipped = load_bilm(naive.write_model(tmp_path / "b", naive.make_options(cell_clip=2.0), tensors))
    before = bilm.fingerprint()
    assert clipped.fingerprint() != before
    with torch.no_grad():
        bilm.directions[1][1].bias[3] += 1e-6
    assert bilm.fingerprint() != before
