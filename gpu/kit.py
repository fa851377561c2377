"""What the benchmark needs from the network, in one folder that can be carried to a machine without.

Wheels of what foretoken needs, for that machine's Python, and the sources of llama-cpp-python without what is not
compiled. Runs with nothing installed but pip.
"""

from __future__ import annotations

import argparse
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

BINDING = "llama-cpp-python"
SOURCES = "llama-cpp-python.tar.xz"
WHEELS = "wheels"
COMPLETE = "complete"
_VENDORED = "vendor/llama.cpp/"
_VOCABULARY = "models/ggml-vocab-qwen35.gguf"
_UNNEEDED = (
    "benches/", "ci/", "conversion/", "docs/", "examples/", "gguf-py/", "grammars/", "media/", "models/", "pocs/",
    "requirements/", "skills/", "tests/", "tools/server/tests/", "tools/ui/src/", "tools/ui/static/", "tools/ui/tests/",
    "ggml/src/ggml-cann/", "ggml/src/ggml-hexagon/", "ggml/src/ggml-metal/", "ggml/src/ggml-opencl/",
    "ggml/src/ggml-openvino/", "ggml/src/ggml-sycl/", "ggml/src/ggml-virtgpu/", "ggml/src/ggml-vulkan/",
    "ggml/src/ggml-webgpu/",
)  # fmt: skip
_MORE = ("hatchling", "editables", "gguf==0.19.0", "diskcache>=5.6")
"""To install this project, to write models, and what the binding needs of its own."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m gpu.kit", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("gpu-kit"), help="the folder")
    parser.add_argument("--project", type=Path, default=Path(), help="where pyproject.toml is")
    parser.add_argument("--sdist", type=Path, help=f"{BINDING}'s, if it is here already")
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    parser.add_argument("--python", default=own, help="the Python it is for; this one's if not said (%(default)s)")
    options = parser.parse_args(arguments)
    make(options.out, options.project, options.python, options.sdist)


def make(out: Path, project: Path, python: str, sdist: Path | None) -> None:
    with (project / "pyproject.toml").open("rb") as file:
        needed: list[str] = tomllib.load(file)["project"]["dependencies"]
    binding = next(one for one in needed if one.startswith(BINDING))
    wheels = out / WHEELS
    shutil.rmtree(out, ignore_errors=True)
    wheels.mkdir(parents=True)
    print(f"wheels for Python {python}", flush=True)
    others = [one for one in needed if one != binding]
    _pip("download", "--only-binary=:all:", f"--python-version={python}", "--dest", wheels, *others, *_MORE)
    with tempfile.TemporaryDirectory() as folder:
        if sdist is None:
            print(f"the sources of {binding}", flush=True)
            _pip("download", "--no-deps", f"--no-binary={BINDING}", "--dest", folder, binding)
            sdist = next(Path(folder).glob("*.tar.gz"))
        print("leaving out what is not compiled", flush=True)
        trim(sdist, out / SOURCES)
    (out / COMPLETE).touch()


def trim(sdist: Path, out: Path) -> None:
    """The same archive with fewer files, packed better."""
    with tarfile.open(sdist) as source, tarfile.open(out, "w:xz", preset=6) as target:
        for member in source:
            if member.isfile() and _wanted(member.name.partition("/")[2]):
                content = source.extractfile(member)
                assert content is not None
                target.addfile(member, io.BytesIO(content.read()))


def _wanted(path: str) -> bool:
    if path.startswith("llama_cpp/"):
        return path.endswith(".py") and path.count("/") == 1
    if not path.startswith(_VENDORED):
        return False
    inside = path.removeprefix(_VENDORED)
    return inside == _VOCABULARY or not inside.startswith(_UNNEEDED)


def _pip(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    if subprocess.run(command).returncode:
        raise SystemExit("pip could not fetch what is named above: is there a network, and does that Python exist?")


if __name__ == "__main__":
    main()
