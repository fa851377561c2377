"""libllama and llama-server with CUDA, from the sources inside the pinned llama-cpp-python: cmake, ninja and nvcc.

Kernels that no model of the benchmark uses (other head sizes, other weight types, vision, training) are left out: two
minutes on 16 cores instead of five. A library of their names that abort takes their place, to be preloaded.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpu import recorded_server

_VENDORED, _BINDING = "vendor/llama.cpp/", "llama_cpp/"
_SETTINGS = (
    "-DCMAKE_BUILD_TYPE=Release", "-DGGML_CUDA=ON", "-DBUILD_SHARED_LIBS=ON", "-DGGML_CUDA_NCCL=OFF",
    "-DGGML_CUDA_FA_QUANTS=f16-f16;q8_0-q8_0", "-DLLAMA_CURL=OFF", "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_APP=OFF", "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF", "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON",
    "-DCMAKE_SHARED_LINKER_FLAGS=-Wl,-z,lazy",
    "-DCMAKE_EXE_LINKER_FLAGS=-Wl,--unresolved-symbols=ignore-in-shared-libs",
)  # fmt: skip
_TYPES = ("q4_k", "q6_k", "q8_0")
_HEADS = {2: (64,), 4: (64, 256), 8: (256,)}
"""Head sizes by how many query heads share a key: the embedded models' and Qwen3.5's."""
_UNUSED = (
    "conv-transpose-1d", "conv2d-dw", "conv2d-transpose", "conv2d", "conv3d", "col2im-1d", "cross-entropy-loss",
    "dsv4-hc", "gla", "im2col", "lightning-indexer", "opt-step-adamw", "opt-step-sgd", "pad_reflect_1d", "pool1d",
    "pool2d", "roll", "snake", "ssm-scan", "tsembd", "upscale", "wkv", "count-equal",
)  # fmt: skip
ABSENT = "libabsent.so"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m gpu.build", description=__doc__)
    parser.add_argument("--sdist", type=Path, required=True, help="llama_cpp_python-0.3.36.tar.gz, or that of a kit")
    parser.add_argument("--folder", type=Path, required=True, help="sources and build; what is built stays")
    parser.add_argument("--architecture", default="native", help="CMAKE_CUDA_ARCHITECTURES")
    parser.add_argument("--jobs", type=int, help="compilers at once; ninja's choice")
    options = parser.parse_args(arguments)
    print(build(options.sdist, options.folder, options.architecture, options.jobs))


def build(sdist: Path, folder: Path, architecture: str, jobs: int | None) -> Path:
    """The folder with the libraries and the server, built unless it is there."""
    libraries = folder / "build" / "bin"
    if (libraries / ABSENT).exists():
        return libraries
    sources = _unpack(sdist, folder)
    recorded_server.patch(sources)
    trim(sources)
    configure = ["cmake", "-S", str(sources), "-B", str(folder / "build"), "-G", "Ninja", *_SETTINGS]
    subprocess.run([*configure, f"-DCMAKE_CUDA_ARCHITECTURES={architecture}"], check=True)
    compilers = [] if jobs is None else ["-j", str(jobs)]
    subprocess.run(["ninja", "-C", folder / "build", *compilers, "ggml-cuda", "llama-server"], check=True)
    _stand_in(libraries)
    return libraries


def _unpack(sdist: Path, folder: Path) -> Path:
    """llama.cpp beside the binding, which is Python alone and needs no installing."""
    unpacked = folder / "sources"
    if not unpacked.exists():
        part = folder / "sources.part"
        part.mkdir(parents=True, exist_ok=True)
        with tarfile.open(sdist) as archive:
            archive.extractall(part, _members(archive), filter="data")
        part.rename(unpacked)
    return unpacked / _VENDORED


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """What is used, without the name of the package that carries it."""
    found = False
    for member in archive:
        inside = member.name.partition("/")[2]
        if inside.startswith((_VENDORED, _BINDING)):
            found = found or inside.startswith(_VENDORED)
            yield member.replace(name=inside, deep=False)
    if not found:
        raise SystemExit("there is no llama.cpp in this archive: it must be llama-cpp-python's source package")


def trim(sources: Path) -> None:
    """Take away the kernels that the benchmark's models do not use."""
    cuda = sources / "ggml" / "src" / "ggml-cuda"
    for path in (cuda / "template-instances").glob("*.cu"):
        kind = path.stem.partition("-instance-")
        if kind[0] == "fattn-tile" or (kind[0] == "mmq" and kind[2] not in _TYPES):
            path.unlink()
        elif kind[0] == "fattn-mma-f16":
            _keep_heads(path)
    for name in _UNUSED:
        (cuda / f"{name}.cu").unlink(missing_ok=True)


def _keep_heads(path: Path) -> None:
    shared = int(path.stem.rpartition("_")[2])
    kept = [line for line in path.read_text().splitlines() if not line.startswith("DECL") or _wanted(line, shared)]
    if any(line.startswith("DECL") for line in kept):
        path.write_text("\n".join(kept) + "\n")
    else:
        path.unlink()


def _wanted(line: str, shared: int) -> bool:
    key, value = (int(number) for number in re.findall(r"\d+", line.partition("(")[2])[:2])
    return key == value and key in _HEADS.get(shared, ())


def _stand_in(libraries: Path) -> None:
    """A library that defines what was left out, so that the others load; using any of it aborts."""
    defined = {name for path in libraries.glob("lib*.so") for name in _symbols(path, "--defined-only")}
    absent = [name for name in _symbols(libraries / "libggml-cuda.so", "--undefined-only") if _ours(name)]
    labels = [f".globl {name}\n{name}:" for name in sorted(set(absent) - defined)]
    source = libraries / "absent.s"
    source.write_text("\n".join([".text", *labels, "call abort@PLT", '.section .note.GNU-stack,"",@progbits', ""]))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", libraries / ABSENT, source], check=True)


def _ours(symbol: str) -> bool:
    return symbol.startswith("_Z") and re.search("ggml_cuda|mul_mat|flash_attn", symbol) is not None


def _symbols(library: Path, which: str) -> list[str]:
    listed = subprocess.run(["nm", "-D", which, library], check=True, capture_output=True, text=True).stdout
    return [line.split()[-1].partition("@")[0] for line in listed.splitlines()]


if __name__ == "__main__":
    main()
