"""libllama itself: started once, its log turned into Python logging."""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path

import llama_cpp

log = logging.getLogger("foretoken.libllama")

_LEVELS = {1: logging.DEBUG, 2: logging.INFO, 3: logging.WARNING, 4: logging.ERROR}
_CONTINUE = 5
_LEFT_OUT = "has unused tensor"
"""What it says of every tensor of a layer that is not loaded, such as an MTP layer that nobody asked for: no news."""
_MMAP_THRESHOLD = -3
"""glibc's M_MMAP_THRESHOLD: allocations from this size on get pages of their own."""
_LARGE = 2 << 20


class _Log:
    """Collects the library's half lines into log records, and its complaints for whoever listens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._line = ""
        self._level = logging.DEBUG
        self._listeners: list[list[str]] = []

    def write(self, level: int, text: bytes, _user_data: object) -> None:
        with self._lock:
            if level != _CONTINUE:
                self._flush()
                self._level = _LEVELS.get(level, logging.DEBUG)
            self._line += text.decode("utf-8", "replace")
            if self._line.endswith("\n"):
                self._flush()

    def _flush(self) -> None:
        line, self._line = self._line.strip(), ""
        if not line:
            return
        telling = self._level >= logging.WARNING and _LEFT_OUT not in line
        if telling:
            for heard in self._listeners:
                heard.append(line)
        # The library's INFO is a page per model: ours is one line, so theirs is for --verbose.
        log.log(self._level if telling else logging.DEBUG, line)

    @contextmanager
    def listen(self) -> Iterator[list[str]]:
        heard: list[str] = []
        with self._lock:
            self._listeners.append(heard)
        try:
            yield heard
        finally:
            with self._lock:
                self._listeners = [other for other in self._listeners if other is not heard]


_log = _Log()
# C keeps this pointer for the life of the process, so Python must keep the object as long.
_callback = llama_cpp.llama_log_callback(_log.write)


@cache
def start() -> None:
    """Start the library and take over its log; every handle calls this first."""
    llama_cpp.llama_log_set(_callback, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    _give_back_large_buffers()


def _give_back_large_buffers() -> None:
    """Have the C library return the memory of kept states as soon as they go.

    It learns from the first one that goes to leave such sizes on its heap, where whatever lies between keeps the holes.
    """
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(_MMAP_THRESHOLD, _LARGE)


def complaints() -> AbstractContextManager[list[str]]:
    """A context manager that yields the warnings and errors the library logs meanwhile."""
    return _log.listen()


def reason(heard: list[str], otherwise: str) -> str:
    """The most telling of the library's complaints, without its function names."""
    lines = [line.split(": ", 1)[-1] if line.startswith("llama_") else line for line in heard]
    return next((line for line in lines if "error" in line.lower()), lines[0] if lines else otherwise)


def supports_gpu() -> bool:
    """Whether this build of the library can use a GPU that is there."""
    return bool(llama_cpp.llama_supports_gpu_offload())


def build() -> list[tuple[str, int, int]]:
    """Which build of it this is: the same version with other kernels takes other times."""
    folder = Path(os.environ.get("LLAMA_CPP_LIB_PATH") or Path(llama_cpp.__file__).parent / "lib")
    found = ((file.name, file.stat()) for file in folder.iterdir() if file.is_file())
    return sorted((name, stat.st_size, stat.st_mtime_ns) for name, stat in found)


def version() -> str:
    """What this library is: the binding's version and the library's own."""
    return f"llama-cpp-python {llama_cpp.__version__}, llama.cpp {llama_cpp.llama_version().decode()}"
