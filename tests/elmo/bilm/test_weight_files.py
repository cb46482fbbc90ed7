import json
import os
import shutil
import struct
from dataclasses import replace

import h5py
import numpy as np
import pytest
import safetensors.torch
import torch

from elmo import SIZES, BilmOptions, InputError, load_bilm, random_bilm, save_bilm
from elmo.bilm import weight_files
from tests.elmo import naive

OPTIONS = naive.make_options()
SUFFIXES = [".hdf5", ".safetensors"]


@pytest.fixture
def tensors():
    return naive.make_tensors(OPTIONS, seed=11)


@pytest.fixture
def folder(tmp_path, tensors):
    return naive.write_model(tmp_path / "model", OPTIONS, tensors)


def datasets(path):
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.update({name: item[...]}) if isinstance(item, h5py.Dataset) else None)
    return found


def same_file(path, expected):
    found = datasets(path)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype == np.float32
        assert np.array_equal(found[name], tensor), name  # bit for bit: there are no NaNs


def test_hdf5_round_trip_is_exact(folder, tensors, tmp_path):
    save_bilm(load_bilm(folder), tmp_path / "out" / "weights.hdf5")
    same_file(tmp_path / "out" / "weights.hdf5", tensors)
    assert json.loads((tmp_path / "out" / "options.json").read_text(encoding="utf-8")) == OPTIONS


def test_round_trip_of_the_reference_file_is_exact(reference, tmp_path):
    bilm = load_bilm(reference / "lm_weights.hdf5")
    save_bilm(bilm, tmp_path / "weights.hdf5")
    same_file(tmp_path / "weights.hdf5", datasets(reference / "lm_weights.hdf5"))
    again = json.loads((tmp_path / "options.json").read_text(encoding="utf-8"))
    assert again == json.loads((reference / "options.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("first", SUFFIXES)
@pytest.mark.parametrize("second", SUFFIXES)
def test_round_trips_keep_every_bit(folder, tmp_path, first, second):
    bilm = load_bilm(folder)
    save_bilm(bilm, tmp_path / f"one{first}")
    save_bilm(load_bilm(tmp_path / f"one{first}"), tmp_path / f"two{second}")
    again = load_bilm(tmp_path / f"two{second}")
    assert again.fingerprint() == bilm.fingerprint()
    assert again.options == bilm.options
    for name, tensor in bilm.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name


def test_safetensors_holds_bilm_tfs_names_and_shapes(folder, tensors, tmp_path):
    save_bilm(load_bilm(folder), tmp_path / "weights.safetensors")
    found = safetensors.torch.load_file(tmp_path / "weights.safetensors")
    assert found.keys() == tensors.keys()
    assert all(np.array_equal(found[name].numpy(), tensor) for name, tensor in tensors.items())


def test_safetensors_carries_its_options(folder, tmp_path):
    bilm = load_bilm(folder)
    save_bilm(bilm, tmp_path / "weights.safetensors")
    (tmp_path / "options.json").unlink()
    assert load_bilm(tmp_path / "weights.safetensors").fingerprint() == bilm.fingerprint()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_each_weights_file_in_a_folder_keeps_its_options(folder, tmp_path, suffix):
    first = load_bilm(folder)
    second = random_bilm(replace(first.options, cell_clip=0.01), seed=1)
    save_bilm(first, tmp_path / f"first_weights{suffix}")
    save_bilm(second, tmp_path / f"second_weights{suffix}")
    assert load_bilm(tmp_path / f"first_weights{suffix}").options == first.options
    assert load_bilm(tmp_path / f"second_weights{suffix}").options == second.options


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_and_infinite_values_are_refused(folder, tmp_path, value):
    bilm = load_bilm(folder)
    with torch.no_grad():
        next(bilm.parameters())[0, 0] = value
    save_bilm(bilm, tmp_path / "weights.hdf5")
    with pytest.raises(InputError, match=r"weights.hdf5: tensor '\w+' holds NaN or infinite values"):
        load_bilm(tmp_path / "weights.hdf5")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_half_precision(folder, tensors, tmp_path, suffix):
    path = tmp_path / f"weights{suffix}"
    save_bilm(load_bilm(folder), path, dtype=torch.float16)
    bilm = load_bilm(path)
    assert all(tensor.dtype == torch.float32 for tensor in bilm.state_dict().values())
    expected = tensors["char_embed"].astype(np.float16).astype(np.float32)
    assert np.array_equal(bilm.encoder.characters.weight.numpy(), expected)
    full = tmp_path / f"full{suffix}"
    save_bilm(bilm, full)
    assert path.stat().st_size < 0.7 * full.stat().st_size


def test_double_precision_big_endian_files_are_read(folder, tensors):
    with h5py.File(folder / "weights.hdf5", "a") as file:
        del file["char_embed"]
        file["char_embed"] = tensors["char_embed"].astype(">f8")
    assert np.array_equal(load_bilm(folder).encoder.characters.weight.numpy(), tensors["char_embed"])


def test_no_projection_between_equal_widths(tmp_path):
    options = BilmOptions(cell_dim=8, projection_dim=12, filters=((1, 4), (2, 8)), char_dim=3)
    bilm = random_bilm(options, seed=1)
    save_bilm(bilm, tmp_path / "weights.hdf5")
    assert not any("CNN_proj" in name for name in datasets(tmp_path / "weights.hdf5"))
    assert load_bilm(tmp_path).fingerprint() == bilm.fingerprint()
    assert bilm.token_layers([["word"]]).shape == (3, 1, 24)


def test_unknown_suffix_writes_nothing(tmp_path):
    with pytest.raises(InputError, match=r"expected a name ending in .safetensors or .hdf5, found '\.pt'"):
        save_bilm(random_bilm("tiny", seed=1), tmp_path / "weights.pt")
    assert list(tmp_path.iterdir()) == []


# Files that do not match their options


LSTM = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell/W_P_0"


def rewritten(folder, suffix, change):
    """Writes the model with changed tensors, in either format."""
    path = folder / "weights.hdf5"
    content = datasets(path)
    change(content)
    path.unlink()
    if suffix == ".hdf5":
        naive.write_model(folder, OPTIONS, content)
        return path
    path = folder / "weights.safetensors"
    safetensors.torch.save_file({name: torch.from_numpy(tensor.copy()) for name, tensor in content.items()}, path)
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", ["char_embed", "CNN/b_cnn_3", "CNN_high_1/W_carry", "CNN_proj/W_proj", LSTM])
def test_missing_tensor(folder, tensors, suffix, name):
    path = rewritten(folder, suffix, lambda content: content.pop(name))
    with pytest.raises(InputError, match=r"expected shape \(.+\) by its options, found none") as raised:
        load_bilm(path)
    for part in (str(path), repr(name), str(tensors[name].shape)):
        assert part in str(raised.value)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", ["char_embed", "CNN/W_cnn_2", "CNN_high_0/b_transform", LSTM])
def test_misshaped_tensor(folder, tensors, suffix, name):
    wrong = np.zeros((*tensors[name].shape[:-1], 99), dtype=np.float32)
    path = rewritten(folder, suffix, lambda content: content.update({name: wrong}))
    with pytest.raises(InputError, match=r"expected shape \(.+\) by its options, found shape \(") as raised:
        load_bilm(path)
    for part in (str(path), repr(name), str(tensors[name].shape), str(wrong.shape)):
        assert part in str(raised.value)


@pytest.mark.parametrize(
    "place", [b"TREE", b"char_embed", b"CNN_proj", struct.pack("<2Q", 261, 4)[:-1], b"\x17\x7f\0\0"]
)
def test_a_damaged_hdf5_file(folder, place):
    """A byte of its structure, of a name, which is then not UTF-8, of the shape of char_embed, or of a type."""
    path = folder / "weights.hdf5"
    content = bytearray(path.read_bytes())
    content[content.index(place) + len(place) - 1] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(
        InputError, match=r"weights.hdf5: not a readable HDF5 file, perhaps cut short .+\. Copy it again"
    ):
        load_bilm(path)


def test_a_transposed_square_matrix_is_not_detected_by_shape(folder, tensors):
    # A known limit: it loads, but has another fingerprint.
    before = load_bilm(folder).fingerprint()
    name = "CNN_high_0/W_carry"
    path = rewritten(folder, ".hdf5", lambda content: content.update({name: tensors[name].T.copy()}))
    assert load_bilm(path).fingerprint() != before


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_extra_tensor(folder, suffix):
    extra = "RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/B"
    path = rewritten(folder, suffix, lambda content: content.update({extra: np.zeros(80, dtype=np.float32)}))
    with pytest.raises(InputError, match="expected none by its options, found shape") as raised:
        load_bilm(path)
    assert repr(extra) in str(raised.value)


def test_softmax_weights_are_ignored(folder):
    before = load_bilm(folder).fingerprint()
    path = rewritten(folder, ".hdf5", lambda content: content.update({"softmax/W": np.zeros((9, 6), np.float32)}))
    assert load_bilm(path).fingerprint() == before


@pytest.mark.parametrize(
    ("section", "key", "value", "named"),
    [
        ("lstm", "dim", 21, "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"),
        ("lstm", "projection_dim", 5, "CNN_proj/W_proj"),
        ("lstm", "n_layers", 3, "RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/W_0"),
        ("lstm", "n_layers", 1, "RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell/B"),
        ("char_cnn", "n_highway", 3, "CNN_high_2/W_carry"),
        ("char_cnn", "n_highway", 1, "CNN_high_1/W_carry"),
        ("char_cnn", "filters", [[1, 4], [2, 8], [3, 16], [6, 10]], "CNN/W_cnn_3"),
        ("char_cnn", "embedding", {"dim": 5}, "char_embed"),
    ],
)
def test_options_that_do_not_fit(folder, section, key, value, named):
    content = json.loads((folder / "options.json").read_text(encoding="utf-8"))
    content[section][key] = value
    (folder / "options.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InputError, match="Check that options and weights belong together") as raised:
        load_bilm(folder)
    assert repr(named) in str(raised.value)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_model_is_made_for_options_that_do_not_fit(folder, suffix, monkeypatch):
    """The largest allowed options need more memory than there is."""
    path = rewritten(folder, suffix, lambda content: None)
    content = json.loads((folder / "options.json").read_text(encoding="utf-8"))
    content["lstm"] |= {"dim": 60_000, "n_layers": 90}
    (folder / "options.json").write_text(json.dumps(content), encoding="utf-8")
    monkeypatch.setattr(weight_files, "Bilm", lambda options: pytest.fail("a model was made"))
    with pytest.raises(InputError, match=r"W_0': expected shape \(12, 240000\) by its options, found shape \(12, 80\)"):
        load_bilm(path)


@pytest.mark.parametrize("name", ["char_embed", "softmax/W"])
def test_a_dataset_larger_than_its_file_is_not_read(folder, name):
    """It would need more memory than any machine has."""
    before = load_bilm(folder).fingerprint()
    with h5py.File(folder / "weights.hdf5", "a") as file:
        if name in file:
            del file[name]
        file.create_dataset(name, (1 << 46,), np.float32)
    if name == "softmax/W":  # not part of the network: ignored
        assert load_bilm(folder).fingerprint() == before
    else:
        with pytest.raises(InputError, match=r"tensor 'char_embed': expected shape \(.+\) by its options, found"):
            load_bilm(folder)


def test_a_tensor_without_values_is_missing(folder, tensors):
    """HDF5 would return zeros."""
    with h5py.File(folder / "weights.hdf5", "a") as file:
        del file["char_embed"]
        file.create_dataset("char_embed", tensors["char_embed"].shape, np.float32)
    with pytest.raises(InputError, match=r"tensor 'char_embed': expected shape \(.+\) by its options, found none"):
        load_bilm(folder)


def test_values_in_another_file_are_not_read(folder, tensors, tmp_path):
    """HDF5 would read any file of this machine as numbers, and wait for a pipe."""
    shape = tensors["char_embed"].shape
    (tmp_path / "secret").write_bytes(np.ones(shape, np.float32).tobytes())
    with h5py.File(folder / "weights.hdf5", "a") as file:
        del file["char_embed"]
        file.create_dataset(
            "char_embed", shape, np.float32, external=[(str(tmp_path / "secret"), 0, h5py.h5f.UNLIMITED)]
        )
    with pytest.raises(InputError, match=r"tensor 'char_embed': expected shape \(.+\) by its options, found none"):
        load_bilm(folder)


@pytest.mark.parametrize("name", ["weights.hdf5", "weights.safetensors"])
def test_a_device_in_the_folder_is_not_read(folder, name):
    (folder / "weights.hdf5").unlink()
    (folder / name).symlink_to(os.devnull)  # in place of a pipe, since reading it never blocks
    with pytest.raises(InputError, match=r"expected exactly one .* found none"):
        load_bilm(folder)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 1.0])
def test_truncated_file(folder, tmp_path, suffix, share):
    path = tmp_path / f"cut{suffix}"
    save_bilm(load_bilm(folder), path)
    content = path.read_bytes()
    path.write_bytes(content[: min(int(share * len(content)), len(content) - 1)])  # 1.0: the last byte is missing
    with pytest.raises(InputError, match="perhaps cut short") as raised:
        load_bilm(path)
    assert str(path) in str(raised.value)
    assert str(raised.value).endswith("Copy it again")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_another_kind_of_file_under_the_name(folder, suffix):
    path = folder / f"other{suffix}"
    path.write_text("<html>404 not found</html>" * 40, encoding="utf-8")
    with pytest.raises(InputError, match="perhaps cut short"):
        load_bilm(path)


def test_an_embeddings_file_is_not_a_weights_file(folder):
    path = folder / "embeddings.hdf5"
    with h5py.File(path, "w") as file:
        file["0"] = np.zeros((3, 4, 12), dtype=np.float32)
        file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())[0] = "{}"
    with pytest.raises(InputError, match=r"tensor 'char_embed': expected shape \(.+\) by its options, found none"):
        load_bilm(path)


@pytest.mark.parametrize("content", ["{not json", "[1]", '{"lstm": 1}'])
def test_safetensors_with_invalid_options(folder, tensors, content):
    path = folder / "w.safetensors"
    torch_tensors = {name: torch.from_numpy(tensor) for name, tensor in tensors.items()}
    safetensors.torch.save_file(torch_tensors, path, metadata={"options": content})
    with pytest.raises(InputError, match="metadata"):
        load_bilm(path)


# Finding the files


def test_missing_weights(tmp_path):
    with pytest.raises(InputError, match=r"no such weights file or folder.*with other objectives and networks, too"):
        load_bilm(tmp_path / "none.hdf5")


def test_a_file_of_neither_format(folder):
    path = folder / "weights.pt"
    path.write_bytes(b"")
    with pytest.raises(InputError, match=r"expected a file ending in \.safetensors, \.hdf5, \.h5, or a folder"):
        load_bilm(path)


def test_folder_with_none(tmp_path):
    (tmp_path / "options.json").write_text(json.dumps(OPTIONS), encoding="utf-8")
    with pytest.raises(InputError, match=r"expected exactly one .* found none"):
        load_bilm(tmp_path)


def test_folder_with_several(folder):
    shutil.copy(folder / "weights.hdf5", folder / "other_weights.hdf5")
    with pytest.raises(InputError, match=r"expected exactly one .* found other_weights\.hdf5, weights\.hdf5"):
        load_bilm(folder)


def test_folder_with_embeddings_next_to_the_weights(folder):
    expected = load_bilm(folder).fingerprint()
    with h5py.File(folder / "layers.hdf5", "w") as file:
        file["0"] = np.zeros((3, 4, 12), dtype=np.float32)
    assert load_bilm(folder).fingerprint() == expected


def test_allennlps_names(folder):
    # The folder also holds the options.json of another model: the name that matches the weights takes precedence.
    expected = load_bilm(folder).fingerprint()
    (folder / "weights.hdf5").rename(folder / "elmo_2x20_weights.hdf5")
    (folder / "options.json").rename(folder / "elmo_2x20_options.json")
    (folder / "options.json").write_text(json.dumps(SIZES["small"].to_json()), encoding="utf-8")
    assert load_bilm(folder).fingerprint() == expected


def test_no_options(folder):
    (folder / "options.json").unlink()
    with pytest.raises(InputError, match=r"expected options\.json next to the weights, found none; copy it there"):
        load_bilm(folder)


@pytest.mark.parametrize("name", ["weights.safetensors", "weights.hdf5"])
def test_file_permissions_follow_the_umask(name, tmp_path):
    save_bilm(random_bilm("tiny", seed=1), tmp_path / name)
    plain = tmp_path / "plain"
    plain.touch()
    assert (tmp_path / name).stat().st_mode == plain.stat().st_mode
