"""Controls: each keeps the width of the biLM and lacks what its name says."""

import pytest
import torch

from elmo import load_bilm, random_bilm, save_bilm
from elmo.sources.controls import CENTRING_TEXT, CONTROLS, Centred, centred, shuffled, untrained

TEXT = [line.split() for line in CENTRING_TEXT.read_text().splitlines()]
SENTENCES = [["The", "old", "bank", "of", "the", "river", "was", "steep"], ["We", "play", "chess", "and", "a", "game"]]


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("bilm") / "weights.safetensors"
    save_bilm(random_bilm("tiny", 5), path)
    return str(path)


def mean_cosine(layer):
    """Over all pairs of different tokens, (tokens, dim)."""
    unit = torch.nn.functional.normalize(layer.double(), dim=-1)
    n = len(unit)
    return float(((unit @ unit.t()).sum() - n) / (n * (n - 1)))


def test_tokens_of_the_untrained_bilm_are_alike_and_those_of_the_centred_one_are_not(repository):
    """On sentences that the mean does not come from."""
    blocks = (repository / "tasks" / "mini" / "ner" / "dev.txt").read_text().split("\n\n")[:30]
    sentences = [[line.split()[0] for line in block.splitlines() if line] for block in blocks]
    control = centred("small", 0)
    plain, centred_layers = (source.token_layers(sentences) for source in (control.source, control))
    for layer in range(3):
        assert mean_cosine(plain[layer]) > 0.85
        assert abs(mean_cosine(centred_layers[layer])) < 0.1


def test_centred_is_untrained_minus_a_mean_that_no_batch_changes(weights):
    source, control = untrained(weights, 3), centred(weights, 3)
    mean = source.token_layers(TEXT).double().mean(dim=1, keepdim=True)
    together = control.token_layers(SENTENCES)
    torch.testing.assert_close(together, (source.token_layers(SENTENCES) - mean).float())
    assert torch.equal(control.token_layers(SENTENCES[1:]), together[:, len(SENTENCES[0]) :])
    torch.testing.assert_close(control.token_layers(TEXT).mean(dim=1), torch.zeros(3, 16), rtol=0, atol=1e-6)
    assert control.widths == source.widths


def test_shuffled_keeps_the_values_of_each_tensor_and_no_order(weights):
    trained, control = (bilm.state_dict() for bilm in (load_bilm(weights), shuffled(weights, 1)))
    assert trained.keys() == control.keys()
    for name, tensor in trained.items():
        assert torch.equal(tensor.flatten().sort().values, control[name].flatten().sort().values), name
        if len(tensor.unique()) > 4:
            assert not torch.equal(tensor, control[name]), name
    assert torch.isfinite(shuffled(weights, 1).token_layers(SENTENCES)).all()


def test_draws_and_controls_have_fingerprints_of_their_own(weights):
    makers = [untrained, *CONTROLS.values()]
    found = [make(weights, draw).fingerprint() for make in makers for draw in (0, 1)]
    assert len({load_bilm(weights).fingerprint(), *found}) == 1 + len(found)
    assert [make(weights, draw).fingerprint() for make in makers for draw in (0, 1)] == found


def test_another_text_is_another_source(weights, tmp_path):
    (tmp_path / "text").write_text("A word or two\n")
    other = Centred(untrained(weights, 0), tmp_path / "text")
    assert other.fingerprint() != centred(weights, 0).fingerprint()
    assert not torch.equal(other.token_layers(SENTENCES), centred(weights, 0).token_layers(SENTENCES))
