"""What `make bench-gpu` gathers and leaves out before it compiles; the compiling itself takes a GPU's tools."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from gpu import build, kit
from gpu.recorded_server import patch


def test_only_kernels_that_are_used_are_built(tmp_path: Path) -> None:
    instances = tmp_path / "ggml/src/ggml-cuda/template-instances"
    instances.mkdir(parents=True)
    for name in ("mmq-instance-q4_k", "mmq-instance-iq1_s", "fattn-tile-instance-dkq64-dv64", "mmf-instance-ncols_1"):
        (instances / f"{name}.cu").write_text("x")
    attention = "fattn-mma-f16-instance-ncols1_8-ncols2_{}.cu"
    (instances / attention.format(4)).write_text("DECL(64, 64, 8, 4);\nDECL(576, 512, 8, 4);\n")
    (instances / attention.format(1)).write_text("DECL(64, 64, 8, 1);\n")
    build.trim(tmp_path)
    left = {path.name: path.read_text() for path in instances.iterdir()}
    assert left == {
        "mmq-instance-q4_k.cu": "x",
        "mmf-instance-ncols_1.cu": "x",
        attention.format(4): "DECL(64, 64, 8, 4);\n",
    }


def test_another_llama_cpp_is_refused(tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "common/sampling.cpp").write_text("int main() {}\n")
    with pytest.raises(SystemExit, match="not the llama"):
        patch(tmp_path)


_FILES = (
    "PKG-INFO",
    "llama_cpp/llama.py",
    "llama_cpp/server/app.py",
    "vendor/llama.cpp/CMakeLists.txt",
    "vendor/llama.cpp/docs/build.md",
    "vendor/llama.cpp/ggml/src/ggml-cuda/argmax.cu",
    "vendor/llama.cpp/ggml/src/ggml-vulkan/ggml-vulkan.cpp",
    "vendor/llama.cpp/models/ggml-vocab-qwen35.gguf",
    "vendor/llama.cpp/models/ggml-vocab-gpt-2.gguf",
)


def _packed(path: Path, names: tuple[str, ...]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(f"llama_cpp_python-0.3.36/{name}")
            member.size = len(name)
            archive.addfile(member, io.BytesIO(name.encode()))
    return path


@pytest.mark.parametrize("carried", [True, False])
def test_a_kit_unpacks_like_the_package_it_was_made_from(tmp_path: Path, carried: bool) -> None:
    sdist = _packed(tmp_path / "sdist.tar.gz", _FILES)
    if carried:
        kit.trim(sdist, tmp_path / kit.SOURCES)
        sdist = tmp_path / kit.SOURCES
    sources = build._unpack(sdist, tmp_path / "bench")
    assert sources == tmp_path / "bench/sources/vendor/llama.cpp"
    found = {
        str(path.relative_to(tmp_path / "bench/sources")) for path in sources.parents[1].rglob("*") if path.is_file()
    }
    assert found == {name for name in _FILES if name != "PKG-INFO"} - (
        {
            "llama_cpp/server/app.py",
            "vendor/llama.cpp/docs/build.md",
            "vendor/llama.cpp/ggml/src/ggml-vulkan/ggml-vulkan.cpp",
            "vendor/llama.cpp/models/ggml-vocab-gpt-2.gguf",
        }
        if carried
        else set()
    )
    assert (sources / "CMakeLists.txt").read_text() == "vendor/llama.cpp/CMakeLists.txt"


def test_an_archive_without_llama_cpp_is_refused(tmp_path: Path) -> None:
    sdist = _packed(tmp_path / "sdist.tar.gz", ("PKG-INFO", "llama_cpp/llama.py"))
    with pytest.raises(SystemExit, match="source package"):
        build._unpack(sdist, tmp_path / "bench")
