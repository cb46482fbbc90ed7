"""CoVe with random weights in the layout of the published file, against torch's own LSTM of two layers."""

import numpy as np
import pytest
import torch
from torch import nn

from elmo import FrozenSource, InputError
from elmo.sources.cove import Cove

WORDS = {"The": [1.0, 0.0, -1.0], "play": [0.5, 2.0, 0.25], "ended": [-1.0, 1.0, 3.0]}
SENTENCES = [("The", "play", "ended"), (), ("ended",), ("play", "unknown", "The", "play")]


@pytest.fixture
def lstm():
    torch.manual_seed(3)
    return nn.LSTM(3, 4, num_layers=2, bidirectional=True)


@pytest.fixture
def files(tmp_path, lstm):
    """The state of the LSTM, and its word vectors."""
    torch.save(lstm.state_dict(), tmp_path / "lstm.pth")
    lines = [f"{word} {' '.join(map(str, numbers))}\n" for word, numbers in WORDS.items()]
    (tmp_path / "vectors.txt").write_text("".join(lines), encoding="utf-8")
    return str(tmp_path / "lstm.pth"), str(tmp_path / "vectors.txt")


def test_the_second_layer_is_that_of_torch_and_the_first_its_input(files, lstm):
    source = Cove(*files)
    assert isinstance(source, FrozenSource)
    assert source.widths == (8, 8)
    found = source.token_layers(SENTENCES)
    assert found.shape == (2, 8, 8)
    first = nn.LSTM(3, 4, bidirectional=True)
    first.load_state_dict({name: tensor for name, tensor in lstm.state_dict().items() if "_l0" in name})
    start = 0
    for sentence in SENTENCES:
        if sentence:
            read = torch.tensor([WORDS.get(word, [0.0] * 3) for word in sentence])
            for j, model in enumerate((first, lstm)):
                torch.testing.assert_close(found[j, start : start + len(sentence)], model(read)[0].detach())
        start += len(sentence)
    assert source.token_layers([()]).shape == (2, 0, 8)
    alone = source.token_layers(SENTENCES[3:])
    np.testing.assert_allclose(alone.numpy(), found[:, 4:].numpy(), rtol=1e-5, atol=1e-7)


def test_other_weights_or_vectors_are_another_source(files, tmp_path):
    before = Cove(*files).fingerprint()
    assert Cove(*files).fingerprint() == before
    torch.save(nn.LSTM(3, 4, num_layers=2, bidirectional=True).state_dict(), tmp_path / "other.pth")
    (tmp_path / "other.txt").write_text("The 1 0 0\n", encoding="utf-8")
    assert Cove(str(tmp_path / "other.pth"), files[1]).fingerprint() != before
    assert Cove(files[0], str(tmp_path / "other.txt")).fingerprint() != before


def test_errors(files, tmp_path):
    with pytest.raises(
        InputError, match=r"weights of CoVe: expected a path, or one of cove/wmt-lstm, .*found 'cove/wmt'"
    ):
        Cove("cove/wmt", files[1])
    torch.save({"weight_hh_l0": torch.zeros(4)}, tmp_path / "other.pth")
    with pytest.raises(InputError, match=r"other\.pth: expected an LSTM's tensors, such as the matrix weight_hh_l0"):
        Cove(str(tmp_path / "other.pth"), files[1])
    torch.save({"a": 1}, tmp_path / "other.pth")
    with pytest.raises(InputError, match=r"other\.pth: expected an LSTM's tensors, such as the matrix weight_hh_l0"):
        Cove(str(tmp_path / "other.pth"), files[1])
    bad = {**torch.load(files[0]), "bias_hh_l1_reverse": torch.full((16,), torch.nan)}
    torch.save(bad, tmp_path / "bad.pth")
    with pytest.raises(InputError, match=r"bad\.pth: tensor 'bias_hh_l1_reverse' holds NaN .*get the file again"):
        Cove(str(tmp_path / "bad.pth"), files[1])
    (tmp_path / "wide.txt").write_text("The 1 0 0 1\n", encoding="utf-8")
    with pytest.raises(
        InputError,
        match=r"weight_ih_l0: expected .*\(16, 4\), found .*\(16, 3\).*over vectors of 4 numbers: .* vectors to",
    ):
        Cove(files[0], str(tmp_path / "wide.txt"))


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        (1, r"the tensor bias_hh_l1: expected float32 of shape \(16,\), found none\. "),
        (3, r"the tensor bias_hh_l2: expected none, found float32 of shape \(16,\)\. "),
    ],
)
def test_an_encoder_of_another_number_of_layers(files, tmp_path, layers, said):
    path = str(tmp_path / "other.pth")
    torch.save(nn.LSTM(3, 4, layers, bidirectional=True).state_dict(), path)
    with pytest.raises(InputError, match=rf"other\.pth: {said}Expected was a bidirectional LSTM of 2 layers .*another"):
        Cove(path, files[1])
