"""Weight files of biLMs: bilm-tf's HDF5, as AllenNLP publishes it, and safetensors with the same names and shapes.

Nothing is unpickled. All tensors are checked against the options; a file that does not match is rejected with the name
of the first such tensor.

In a safetensors file, the matrices of LSTMs and highways and the word vectors may be int8. NAME_scale then has the
step of each output: one for each row of a matrix as torch has it, which is a column in bilm-tf's layout, and one for
each word. A weight is its integer times its step. The rest is in float16: in the shipped `small`, filters and their
projection have 3 % of the weights, but in int8 they would raise the error of layer 0 from 1.3 to 2.2 %.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from elmo.bilm.model import Bilm
from elmo.bilm.options import N_CHARACTERS, WEIGHT_TYPES, BilmOptions, json_object
from elmo.common.checks import one_of
from elmo.common.errors import InputError, naming, reworded
from elmo.common.files import expanded, replacing
from elmo.common.int8 import in_steps
from elmo.common.tensor_files import check_finite_weights
from elmo.download import obtain
from elmo.published import BILMS, SHIPPED, shipped_names

HDF5_SUFFIXES = (".hdf5", ".h5")
SAFETENSORS_SUFFIX = ".safetensors"
WEIGHTS_SUFFIXES = (SAFETENSORS_SUFFIX, *HDF5_SUFFIXES)
PRECISIONS: dict[str, torch.dtype] = {name: getattr(torch, name) for name in WEIGHT_TYPES}
# How names of tensors begin, those of a biLM and of the others of the grid; a file may also contain embeddings.
_OF_THE_NETWORK = ("CNN", "RNN_", "word_", "encoder.", "blocks.")


@dataclass(frozen=True)
class Entry:
    """One tensor: its name and shape in the file, its name in the module, and the conversions between both."""

    file_name: str
    shape: tuple[int, ...]
    module_name: str
    to_module: Callable[[Tensor], Tensor] = lambda tensor: tensor
    to_file: Callable[[Tensor], Tensor] | None = None  # None: `to_module` is its own inverse
    scale_shape: tuple[int, ...] | None = None  # of its steps if it is int8, broadcasts to `shape`; None: never int8

    @property
    def scale_name(self) -> str:
        """The name of its steps in a file, if it is int8."""
        return f"{self.file_name}_scale"


def _conv_to_module(tensor: Tensor) -> Tensor:
    return tensor.squeeze(0).permute(2, 1, 0)  # (1, width, in, out) -> (out, in, width)


def _conv_to_file(tensor: Tensor) -> Tensor:
    return tensor.permute(2, 1, 0).unsqueeze(0)


def _swap_gates(tensor: Tensor) -> Tensor:
    """Gates i, g, f, o (TensorFlow) <-> i, f, g, o (torch) along the first axis: the swap is its own inverse."""
    first, second, third, fourth = tensor.chunk(4)
    return torch.cat([first, third, second, fourth])


def _entries(options: BilmOptions) -> Iterator[Entry]:
    """Every tensor of a biLM with these options."""

    def gates_to_module(tensor: Tensor) -> Tensor:
        return _swap_gates(tensor.t())

    def gates_to_file(tensor: Tensor) -> Tensor:
        return _swap_gates(tensor).t()

    filters, cell, projection = options.n_filters, options.cell_dim, options.projection_dim
    encoder, spelled = "encoder", projection  # name of the character encoder, and width of its vectors
    if options.words:
        encoder, spelled = "encoder.characters", options.char_output_dim if options.filters else 0
        shape = (len(options.words), options.word_dim)
        yield Entry("word_embed", shape, "encoder.words.weight", scale_shape=(len(options.words), 1))
        if options.word_dim + spelled != projection:
            shape = (options.word_dim + spelled, projection)
            yield Entry("word_proj/W_proj", shape, "encoder.projection.weight", torch.t)
            yield Entry("word_proj/b_proj", (projection,), "encoder.projection.bias")
    if options.filters:
        yield Entry("char_embed", (N_CHARACTERS, options.char_dim), f"{encoder}.characters.weight")
        for i, (width, n) in enumerate(options.filters):
            window = (1, width, options.char_dim, n)
            yield Entry(f"CNN/W_cnn_{i}", window, f"{encoder}.convolutions.{i}.weight", _conv_to_module, _conv_to_file)
            yield Entry(f"CNN/b_cnn_{i}", (n,), f"{encoder}.convolutions.{i}.bias")
        for i in range(options.n_highway):
            for gate in ("carry", "transform"):
                module = f"{encoder}.highways.{i}.{gate}"
                shape, scale = (filters, filters), (1, filters)
                yield Entry(f"CNN_high_{i}/W_{gate}", shape, f"{module}.weight", torch.t, scale_shape=scale)
                yield Entry(f"CNN_high_{i}/b_{gate}", (filters,), f"{module}.bias")
        if filters != spelled:
            yield Entry("CNN_proj/W_proj", (filters, spelled), f"{encoder}.projection.weight", torch.t)
            yield Entry("CNN_proj/b_proj", (spelled,), f"{encoder}.projection.bias")
    for direction in (0, 1):
        for layer in range(options.n_layers):
            file = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            module = f"directions.{direction}.{layer}"
            gates, scale = (2 * projection, 4 * cell), (1, 4 * cell)
            yield Entry(f"{file}/W_0", gates, f"{module}.weight", gates_to_module, gates_to_file, scale)
            yield Entry(f"{file}/B", (4 * cell,), f"{module}.bias", _swap_gates)
            shape, scale = (cell, projection), (1, projection)
            yield Entry(f"{file}/W_P_0", shape, f"{module}.projection", torch.t, scale_shape=scale)


def load_bilm(weights: Path | str, precision: str = "float32") -> Bilm:
    """Loads a biLM from a weights file, from a folder that contains one, or by name, with its options.

    Args:
        weights: an .hdf5 or .safetensors file, a folder with exactly one of them (or one with "weights" in its
            name), the name of a shipped biLM, such as "small", or of a published one, such as "allennlp/small", which
            is downloaded the first time.
        precision: of products: float32, or int8, faster on a CPU with such instructions; see `Bilm.use_int8`.

    Raises:
        InputError: a file is missing or damaged, the options do not describe a biLM, a tensor is missing or does
            not have the shape that the options define, or the precision is another one.
    """
    one_of(("float32", "int8"), "precision", precision)
    path = find_weights(weights)
    chosen = BilmOptions.from_json(*read_options(path))
    state = read_weights(path, list(_entries(chosen)))  # checks the shapes before a large model is made
    bilm = Bilm(chosen)
    bilm.load_state_dict(state)
    return bilm.use_int8() if precision == "int8" else bilm


def find_weights(weights: Path | str) -> Path:
    """The weights file of a path, of a folder or of a name; published weights are downloaded the first time."""
    path, name, shipped = expanded(weights, "weights"), str(weights), shipped_names()
    if not path.exists():
        if name not in (*shipped, *BILMS):
            raise InputError(
                f"{weights}: no such weights file or folder, and no biLM has that name; "
                f"shipped: {', '.join(shipped) or 'none'}; downloaded on demand: {', '.join(BILMS)}; "
                "python -m elmo.pretrain trains others, with other objectives and networks, too"
            )
        path = SHIPPED / name if name in shipped else obtain(name)
    if path.is_dir():
        candidates = sorted(item for item in path.iterdir() if item.suffix in WEIGHTS_SUFFIXES and item.is_file())
        # The folder may also contain embeddings in HDF5.
        candidates = [item for item in candidates if "weights" in item.name] or candidates
        if len(candidates) != 1:
            file_names = ", ".join(item.name for item in candidates) or "none"
            kinds = " or ".join(WEIGHTS_SUFFIXES)
            raise InputError(f"{path}: expected exactly one {kinds} file of weights in this folder, found {file_names}")
        return candidates[0]
    if path.suffix not in WEIGHTS_SUFFIXES or not path.is_file():  # reading a pipe would block
        raise InputError(f"{path}: expected a file ending in {', '.join(WEIGHTS_SUFFIXES)}, or a folder with one")
    return path


def save_bilm(bilm: Bilm, path: Path | str, dtype: torch.dtype = torch.float32) -> None:
    """Writes a biLM to an .hdf5 or .safetensors file in bilm-tf's layout, and options.json next to it.

    Args:
        bilm: the biLM.
        path: the weights file; its suffix chooses the format.
        dtype: torch.float16 halves the file, torch.int8 (.safetensors only) halves it again; it is read back as
            float32.

    Raises:
        InputError: the suffix is unknown, or has no form for this dtype.
    """
    save_weights(Path(path), _entries(bilm.options), bilm.state_dict(), bilm.options.to_json(), dtype)


def save_weights(
    path: Path, entries: Iterable[Entry], state: Mapping[str, Tensor], options: Mapping[str, Any], dtype: torch.dtype
) -> None:
    """Writes the tensors of a module, and options.json next to them; see `save_bilm`."""
    if dtype == torch.int8 and path.suffix != SAFETENSORS_SUFFIX:
        raise InputError(
            f"{path}: expected a name ending in .safetensors for int8 weights, found {path.suffix!r}; bilm-tf's HDF5 "
            "has no place for their scales"
        )
    tensors = {}
    for item in entries:
        tensor = (item.to_file or item.to_module)(state[item.module_name]).cpu()
        if dtype == torch.int8 and item.scale_shape is not None:
            axes = [axis for axis, size in enumerate(item.scale_shape) if size == 1]
            tensor, tensors[item.scale_name] = in_steps(tensor, axes)
        else:
            tensor = tensor.to(torch.float16 if dtype == torch.int8 else dtype)
        tensors[item.file_name] = tensor.contiguous()
    text = json.dumps(options, indent=2) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        if path.suffix == SAFETENSORS_SUFFIX:
            # save_file would make a file that only its owner can read.
            partial.write_bytes(save(tensors, metadata={"options": text}))
        elif path.suffix in HDF5_SUFFIXES:
            import h5py  # imported here: most runs read no HDF5

            with h5py.File(partial, "w") as file:
                for name, tensor in tensors.items():
                    file.create_dataset(name, data=tensor.numpy())
        else:
            raise InputError(f"{path}: expected a name ending in .safetensors or .hdf5, found {path.suffix!r}")
    with replacing(options_path(path)) as partial:
        partial.write_text(text, encoding="utf-8")


def _check_shapes(
    entries: Iterable[Entry], stored: Mapping[str, tuple[int, ...]], path: Path, in_steps: Collection[str] = ()
) -> None:
    """Rejects a file whose tensors do not match the options, and names the first one.

    Args:
        entries: what the options define.
        stored: names and shapes in the file.
        path: the file.
        in_steps: names of tensors that need scales.
    """
    expected: dict[str, tuple[int, ...]] = {}
    for item in entries:
        expected[item.file_name] = item.shape
        if item.file_name in in_steps and item.scale_shape is not None:
            expected[item.scale_name] = item.scale_shape
    # Further tensors of the network mean that the options belong to another model.
    extra = sorted(name for name in stored if name.startswith(_OF_THE_NETWORK) and name not in expected)
    for name in (*expected, *extra):
        wanted, there = (f"shape {shapes[name]}" if name in shapes else "none" for shapes in (expected, stored))
        if wanted != there:
            raise InputError(
                f"{path}: tensor {name!r}: expected {wanted} by its options, found {there}. Check that options and "
                "weights belong together"
            )


def read_options(path: Path) -> tuple[dict[str, Any], str]:
    """The options of a weights file and where they are: in it, or next to it by AllenNLP's rule or as options.json."""
    if path.suffix == SAFETENSORS_SUFFIX:
        with _open_safetensors(path) as file:
            content = (file.metadata() or {}).get("options")
        if content is not None:
            return json_object(content, f"{path} (metadata)"), f"{path} (metadata)"
    named = options_path(path)
    for candidate in (named, path.with_name("options.json")):
        if candidate.is_file():
            return json_object(candidate.read_bytes(), str(candidate)), str(candidate)
    names = " or ".join(dict.fromkeys((named.name, "options.json")))
    raise InputError(f"{path}: expected {names} next to the weights, found none; copy it there")


def options_path(path: Path) -> Path:
    """The options file of a weights file by AllenNLP's rule: NAME_options.json next to NAME_weights.hdf5."""
    return path.with_name(f"{path.stem.removesuffix('weights')}options.json")


def _open_safetensors(path: Path) -> safe_open:
    problem = f"{path}: not a readable safetensors file, perhaps cut short"
    with reworded((SafetensorError, OSError), lambda error: f"{problem} ({error}). Copy it again"):
        return safe_open(path, framework="pt")


def read_weights(path: Path, entries: Sequence[Entry]) -> dict[str, Tensor]:
    """The tensors of a module from a weights file, by their names in the module."""
    state = {}
    with _opened(path) as (shapes, int8, read):
        in_steps = {item.file_name for item in entries if item.scale_shape} & int8
        _check_shapes(entries, shapes, path, in_steps)
        for item in entries:
            tensor = read(item.file_name)
            read_now = {item.file_name: tensor}
            if item.file_name in in_steps:
                read_now[item.scale_name] = scale = read(item.scale_name).float()
                if (scale <= 0).any():
                    problem = f"{path}: tensor {item.scale_name!r}: expected positive steps, found {scale.min():g}"
                    raise InputError(f"{problem}. The file is damaged; copy it again")
                tensor = tensor.float() * scale
            elif not tensor.is_floating_point():
                raise InputError(
                    f"{path}: tensor {item.file_name!r}: expected floating-point numbers, found {tensor.dtype}. Only "
                    "the matrices of LSTMs and highways and word vectors may be int8; convert the weights again with "
                    "python -m elmo.convert"
                )
            with naming(path, "The file is damaged, or the training that made it diverged: use other weights"):
                check_finite_weights(read_now)
            state[item.module_name] = item.to_module(tensor.float())
    return state


@contextmanager
def _opened(path: Path) -> Iterator[tuple[dict[str, tuple[int, ...]], set[str], Callable[[str], Tensor]]]:
    """The shapes of the tensors in a weights file, the names of those in int8, and a function that reads one."""
    shapes: dict[str, tuple[int, ...]] = {}
    if path.suffix == SAFETENSORS_SUFFIX:
        with _open_safetensors(path) as file:
            parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (it cannot be iterated)
            shapes = {name: tuple(part.get_shape()) for name, part in parts.items()}
            yield shapes, {name for name, part in parts.items() if part.get_dtype() == "I8"}, file.get_tensor
        return

    import h5py

    def visit(name: str, item: object) -> None:
        # Skips text, such as a sentence index, and datasets without values or with values in another file.
        if (
            isinstance(item, h5py.Dataset)
            and item.dtype.kind == "f"
            and item.id.get_storage_size()
            and not item.external
        ):
            shapes[name] = item.shape

    # What h5py raises for a damaged file; the last three for damaged shapes, types and names.
    damaged, problem = (OSError, RuntimeError, KeyError, TypeError, ValueError), f"{path}: not a readable HDF5 file"
    reading = reworded(damaged, lambda error: f"{problem}, perhaps cut short ({error}). Copy it again")
    with reading, h5py.File(path, "r") as file:
        file.visititems(visit)
        yield shapes, set(), lambda name: torch.from_numpy(np.asarray(file[name], dtype=np.float32))
