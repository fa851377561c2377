"""Models of Hugging Face repositories: user/repo[:quant]."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from foretoken.errors import ConfigError

_PREFERRED = ("q4_k_m", "q4_0", "q8_0")


def fetch_repository(name: str, folder: Path) -> Path:
    """A GGUF of a repository, kept in the folder; the quantisation is part of the file's name.

    When the hub cannot be reached, what was fetched before will do.
    """
    repository, _, quant = name.partition(":")
    try:
        hub: Any = importlib.import_module("huggingface_hub")
    except ImportError:
        raise ConfigError("-hf needs huggingface_hub: pip install 'foretoken[hf]'") from None
    place = folder / repository
    try:
        # Not list_repo_files: without a network it tries for half a minute.
        listed = [file.rfilename for file in hub.model_info(repository).siblings or ()]
        files = [file for file in listed if file.lower().endswith(".gguf")]
        chosen = choose_file(files, quant, repository)
        return Path(hub.hf_hub_download(repository, chosen, local_dir=place))
    except ConfigError:
        raise
    except Exception as error:
        if _refused(error):
            raise ConfigError(f"cannot fetch {name}: {_reason(error, repository)}") from error
        if here := [str(path.relative_to(place)) for path in place.rglob("*.gguf")]:
            return place / choose_file(here, quant, repository)
        raise ConfigError(f"cannot fetch {name}: {_reason(error, repository)}") from error


def choose_file(files: list[str], quant: str, repository: str) -> str:
    """The file with the wanted quantisation; without a wish, as llama.cpp does, Q4_K_M."""
    whole = [file for file in files if "-of-" not in file and "mmproj" not in file.lower()]
    for wish in [quant.lower()] if quant else [*_PREFERRED, ""]:
        matching = [file for file in whole if wish in Path(file).stem.lower()]
        if matching:
            return min(matching, key=len)
    there = ", ".join(Path(file).stem for file in whole) or "no GGUF in one piece"
    raise ConfigError(f"{repository} has no {quant or 'model'}: there is {there}")


def _refused(error: Exception) -> bool:
    """Whether the hub answered, and the answer was no; names, because they moved between its versions."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return bool(kinds & {"RepositoryNotFoundError", "GatedRepoError", "HFValidationError", "EntryNotFoundError"})


def _reason(error: Exception, repository: str) -> str:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if "GatedRepoError" in kinds:
        return "its owner wants to be asked first: accept its terms on the hub, then set HF_TOKEN"
    if "RepositoryNotFoundError" in kinds:
        return f"there is no repository {repository}, or it is private (set HF_TOKEN)"
    if "HFValidationError" in kinds:
        return "a repository is named user/repo, or user/repo:quant"
    if isinstance(error, OSError) or kinds & {"ConnectError", "ConnectTimeout", "TransportError"}:
        return f"the hub cannot be reached ({_first_line(error)}); name a GGUF file instead"
    return _first_line(error)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__
