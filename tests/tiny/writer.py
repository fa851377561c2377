"""Writes a tiny model as a GGUF file."""

import os
import tempfile
import zlib
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType
from gguf.quants import quantize

from .architectures import CATALOGUE, Value
from .encoders import ENCODERS, Encoder
from .tensors import Array, Tensor
from .vocabulary import add_vocabulary, control_ids

QUANTS = {
    "F16": (GGMLQuantizationType.F16, LlamaFileType.MOSTLY_F16),
    "Q8_0": (GGMLQuantizationType.Q8_0, LlamaFileType.MOSTLY_Q8_0),
    "Q4_0": (GGMLQuantizationType.Q4_0, LlamaFileType.MOSTLY_Q4_0),
}
SHY = 0.25  # how loud a control token is: random text should not end by chance


def write(path: Path, arch: str, quant: str = "Q8_0", seed: int = 0) -> Path:
    """Writes the tiny model of an architecture to `path`, whole or not at all."""
    architecture = CATALOGUE[arch] if arch in CATALOGUE else ENCODERS[arch]
    kind, file_type = QUANTS[quant]
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    os.close(handle)
    try:
        writer = GGUFWriter(draft, architecture.name)
        writer.add_name(f"tiny-{arch}")
        writer.add_file_type(file_type)
        for key, value in architecture.all_metadata().items():
            add_value(writer, f"{architecture.name}.{key}", value)
        add_vocabulary(writer)
        if isinstance(architecture, Encoder):
            writer.add_token_type_count(architecture.n_token_types)
        for tensor in architecture.tensors():
            add_tensor(writer, tensor, kind, seed)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        os.replace(draft, path)
    finally:
        Path(draft).unlink(missing_ok=True)
    return path


def ensure(directory: Path, arch: str, quant: str = "Q8_0") -> Path:
    """Returns the tiny model in `directory`, writing it when it is not there yet."""
    path = directory / f"{arch}-{quant}.gguf"
    return path if path.exists() else write(path, arch, quant)


def add_value(writer: GGUFWriter, key: str, value: Value) -> None:
    """Adds one value of metadata with the type libllama reads it as."""
    if isinstance(value, list):
        writer.add_array(key, value)
    elif isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_uint32(key, value)


def add_tensor(writer: GGUFWriter, tensor: Tensor, kind: GGMLQuantizationType, seed: int) -> None:
    """Fills a tensor and adds it, quantised where it may be."""
    data = filled(tensor, seed)
    if tensor.quantised:
        writer.add_tensor(tensor.name, quantize(data, kind), raw_dtype=kind)
    else:
        writer.add_tensor(tensor.name, data)


def filled(tensor: Tensor, seed: int) -> Array:
    """Returns the tensor's values, which depend on its name and the seed only."""
    random = np.random.default_rng((seed, zlib.crc32(tensor.name.encode())))
    data = tensor.fill(random, tensor.shape)
    if tensor.name == "output.weight":
        data[list(control_ids())] *= SHY
    return data
