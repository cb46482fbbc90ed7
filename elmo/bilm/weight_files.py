"""Weight files of biLMs: bilm-tf's HDF5, as AllenNLP publishes it, and safetensors with the same names and shapes.

Nothing is unpickled. All tensors are checked against the options; a file that does not match is refused with the name
of the first such tensor.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from elmo.bilm.model import Bilm
from elmo.bilm.options import N_CHARACTERS, BilmOptions
from elmo.common.errors import InputError
from elmo.common.files import expanded, replacing
from elmo.download import BILMS, obtain

HDF5_SUFFIXES = (".hdf5", ".h5")
SAFETENSORS_SUFFIX = ".safetensors"
WEIGHTS_SUFFIXES = (SAFETENSORS_SUFFIX, *HDF5_SUFFIXES)
SHIPPED = Path(__file__).parents[1] / "pretrained"  # one folder for each biLM in this package


def _same(tensor: Tensor) -> Tensor:
    return tensor


@dataclass(frozen=True)
class _Entry:
    """One tensor: its name and shape in the file, its name in the module, and the conversions between both."""

    file_name: str
    shape: tuple[int, ...]
    module_name: str
    to_module: Callable[[Tensor], Tensor] = _same
    to_file: Callable[[Tensor], Tensor] | None = None  # None: `to_module` is its own inverse


def _transposed(tensor: Tensor) -> Tensor:
    return tensor.t()


def _conv_to_module(tensor: Tensor) -> Tensor:
    return tensor.squeeze(0).permute(2, 1, 0)  # (1, width, in, out) -> (out, in, width)


def _conv_to_file(tensor: Tensor) -> Tensor:
    return tensor.permute(2, 1, 0).unsqueeze(0)


def _swap_gates(tensor: Tensor) -> Tensor:
    """Gates i, g, f, o (TensorFlow) <-> i, f, g, o (torch) along the first axis: the swap is its own inverse."""
    first, second, third, fourth = tensor.chunk(4)
    return torch.cat([first, third, second, fourth])


def _entries(options: BilmOptions) -> Iterator[_Entry]:
    """Every tensor of a biLM with these options."""

    def gates_to_module(tensor: Tensor) -> Tensor:
        return _swap_gates(tensor.t())

    def gates_to_file(tensor: Tensor) -> Tensor:
        return _swap_gates(tensor).t()

    filters, cell, projection = options.n_filters, options.cell_dim, options.projection_dim
    encoder, spelled = "encoder", projection  # name of the character encoder, and width of its vectors
    if options.words:
        encoder, spelled = "encoder.characters", options.char_output_dim if options.filters else 0
        yield _Entry("word_embed", (len(options.words), options.word_dim), "encoder.words.weight")
        if options.word_dim + spelled != projection:
            shape = (options.word_dim + spelled, projection)
            yield _Entry("word_proj/W_proj", shape, "encoder.projection.weight", _transposed)
            yield _Entry("word_proj/b_proj", (projection,), "encoder.projection.bias")
    if options.filters:
        yield _Entry("char_embed", (N_CHARACTERS, options.char_dim), f"{encoder}.characters.weight")
        for i, (width, n) in enumerate(options.filters):
            window = (1, width, options.char_dim, n)
            yield _Entry(f"CNN/W_cnn_{i}", window, f"{encoder}.convolutions.{i}.weight", _conv_to_module, _conv_to_file)
            yield _Entry(f"CNN/b_cnn_{i}", (n,), f"{encoder}.convolutions.{i}.bias")
        for i in range(options.n_highway):
            for gate in ("carry", "transform"):
                module = f"{encoder}.highways.{i}.{gate}"
                yield _Entry(f"CNN_high_{i}/W_{gate}", (filters, filters), f"{module}.weight", _transposed)
                yield _Entry(f"CNN_high_{i}/b_{gate}", (filters,), f"{module}.bias")
        if filters != spelled:
            yield _Entry("CNN_proj/W_proj", (filters, spelled), f"{encoder}.projection.weight", _transposed)
            yield _Entry("CNN_proj/b_proj", (spelled,), f"{encoder}.projection.bias")
    for direction in (0, 1):
        for layer in range(options.n_layers):
            file = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            module = f"directions.{direction}.{layer}"
            gates = (2 * projection, 4 * cell)
            yield _Entry(f"{file}/W_0", gates, f"{module}.weight", gates_to_module, gates_to_file)
            yield _Entry(f"{file}/B", (4 * cell,), f"{module}.bias", _swap_gates)
            yield _Entry(f"{file}/W_P_0", (cell, projection), f"{module}.projection", _transposed)


def load_bilm(weights: Path | str, options: Path | str | None = None) -> Bilm:
    """Loads a biLM from a weights file, from a folder that holds one, or by name.

    Args:
        weights: an .hdf5 or .safetensors file, a folder with exactly one of them (or one with "weights" in its
            name), the name of a shipped biLM, such as "small", or of a published one, such as "allennlp/small", which
            is downloaded the first time.
        options: its options.json; by default the one next to the weights, or the copy in a .safetensors file.

    Raises:
        InputError: a file is missing or damaged, the options do not describe a biLM, or a tensor is missing or does
            not have the shape that the options define.
    """
    path = _weights_file(find_weights(weights))
    chosen = BilmOptions.from_file(Path(options)) if options is not None else _find_options(path)
    read = _read_safetensors if path.suffix == SAFETENSORS_SUFFIX else _read_hdf5
    state = read(path, chosen)  # checks the shapes before a large model is made
    bilm = Bilm(chosen)
    bilm.load_state_dict(state)
    return bilm


def bilm_files(weights: Path | str, options: Path | str | None = None) -> list[Path]:
    """The files that `load_bilm` may read with these arguments; not all need to exist."""
    path = _weights_file(find_weights(weights))
    return [path, *([_options_path(path), path.with_name("options.json")] if options is None else [Path(options)])]


def shipped_names() -> list[str]:
    """The names of the biLMs that come with this package."""
    return sorted(path.parent.name for path in SHIPPED.glob("*/options.json"))


def weights_choices() -> str:
    """Describes the accepted weights, for help texts."""
    names = ", ".join([*shipped_names(), *BILMS])
    return f"an .hdf5 or .safetensors file, its folder, or a name: {names} (allennlp/* are downloaded)"


def find_weights(weights: Path | str) -> Path:
    """The path of weights given by path or name; published weights are downloaded the first time."""
    path = expanded(weights, "weights")
    if path.exists():
        return path
    name, shipped = str(weights), shipped_names()
    if name in shipped:
        return SHIPPED / name
    if name in BILMS:
        return obtain(name)
    raise InputError(
        f"{weights}: no such weights file or folder, and no biLM has that name; "
        f"shipped: {', '.join(shipped) or 'none'}; downloaded on demand: {', '.join(BILMS)}"
    )


def save_bilm(bilm: Bilm, path: Path | str, dtype: torch.dtype = torch.float32) -> None:
    """Writes a biLM to an .hdf5 or .safetensors file in bilm-tf's layout, and options.json next to it.

    Args:
        bilm: the biLM.
        path: the weights file; its suffix chooses the format.
        dtype: torch.float16 halves the file; it is read back as float32.
    """
    path = Path(path)
    state = bilm.state_dict()
    tensors = {
        item.file_name: (item.to_file or item.to_module)(state[item.module_name]).to("cpu", dtype).contiguous()
        for item in _entries(bilm.options)
    }
    options = json.dumps(bilm.options.to_json(), indent=2) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        if path.suffix == SAFETENSORS_SUFFIX:
            # save_file would make a file that only its owner can read.
            partial.write_bytes(save(tensors, metadata={"options": options}))
        elif path.suffix in HDF5_SUFFIXES:
            with h5py.File(partial, "w") as file:
                for name, tensor in tensors.items():
                    file.create_dataset(name, data=tensor.numpy())
        else:
            raise InputError(f"{path}: expected a name ending in .safetensors or .hdf5, found {path.suffix!r}")
    with replacing(_options_path(path)) as partial:
        partial.write_text(options, encoding="utf-8")


def _check_shapes(options: BilmOptions, found: Mapping[str, tuple[int, ...]], path: Path) -> None:
    """Refuses a file whose tensors do not match the options, and names the first one."""
    expected = {item.file_name: item.shape for item in _entries(options)}
    # Further tensors of the network mean that the options belong to another model.
    extra = sorted(name for name in found if name.startswith(("CNN", "RNN_", "word_")) and name not in expected)
    for name in (*expected, *extra):
        wanted, there = (f"shape {shapes[name]}" if name in shapes else "none" for shapes in (expected, found))
        if wanted != there:
            raise InputError(
                f"{path}: tensor {name!r}: expected {wanted} by its options, found {there}. Check that options and "
                "weights belong together"
            )


def _module_tensors(options: BilmOptions, read: Callable[[str], Tensor], path: Path) -> dict[str, Tensor]:
    """The module's state dict, from a file whose shapes were checked."""
    state = {}
    for item in _entries(options):
        tensor = read(item.file_name).float()
        if not bool(torch.isfinite(tensor).all()):
            raise InputError(
                f"{path}: tensor {item.file_name!r} holds NaN or infinite values, and so would all layers. The "
                "training that made it diverged; use earlier weights"
            )
        state[item.module_name] = item.to_module(tensor)
    return state


def _weights_file(path: Path) -> Path:
    if path.is_dir():
        candidates = sorted(item for item in path.iterdir() if item.suffix in WEIGHTS_SUFFIXES)
        # The folder may also hold embeddings in HDF5.
        candidates = [item for item in candidates if "weights" in item.name] or candidates
        if len(candidates) != 1:
            found = ", ".join(item.name for item in candidates) or "none"
            kinds = " or ".join(WEIGHTS_SUFFIXES)
            raise InputError(f"{path}: expected exactly one {kinds} file of weights in this folder, found {found}")
        return candidates[0]
    if path.suffix not in WEIGHTS_SUFFIXES or not path.is_file():  # reading a pipe would block
        raise InputError(f"{path}: expected a file ending in {', '.join(WEIGHTS_SUFFIXES)}, or a folder with one")
    return path


def _find_options(path: Path) -> BilmOptions:
    """The options of a weights file: inside it, or next to it under AllenNLP's name or as options.json."""
    if path.suffix == SAFETENSORS_SUFFIX:
        with _open_safetensors(path) as file:
            content = (file.metadata() or {}).get("options")
        if content is not None:
            return BilmOptions.from_text(content, f"{path} (metadata)")
    named = _options_path(path)
    for candidate in (named, path.with_name("options.json")):
        if candidate.is_file():
            return BilmOptions.from_file(candidate)
    raise InputError(f"{path}: found neither {named.name} nor options.json next to the weights; name it with --options")


def _options_path(path: Path) -> Path:
    """The options file of a weights file by AllenNLP's rule: NAME_options.json next to NAME_weights.hdf5."""
    return path.with_name(f"{path.stem.removesuffix('weights')}options.json")


def _open_safetensors(path: Path) -> safe_open:
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: not a readable safetensors file, perhaps cut short: {error}") from error


def _read_safetensors(path: Path, options: BilmOptions) -> dict[str, Tensor]:
    with _open_safetensors(path) as file:
        names = file.keys()
        _check_shapes(options, {name: tuple(file.get_slice(name).get_shape()) for name in names}, path)
        return _module_tensors(options, file.get_tensor, path)


def _read_hdf5(path: Path, options: BilmOptions) -> dict[str, Tensor]:
    shapes: dict[str, tuple[int, ...]] = {}

    def visit(name: str, item: object) -> None:
        # Skips text, such as a sentence index, and datasets that declare a shape but store no values.
        if isinstance(item, h5py.Dataset) and item.dtype.kind == "f" and item.id.get_storage_size():
            shapes[name] = item.shape

    try:
        with h5py.File(path, "r") as file:
            file.visititems(visit)
            _check_shapes(options, shapes, path)
            return _module_tensors(
                options, lambda name: torch.from_numpy(np.asarray(file[name], dtype=np.float32)), path
            )
    except (OSError, RuntimeError) as error:  # h5py raises either for a damaged file
        raise InputError(f"{path}: not a readable HDF5 file, perhaps cut short: {error}") from error
