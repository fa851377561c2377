"""A kept sequence as a file: header, tokens, parts, checksum; written aside and then renamed."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from foretoken.backend import Part
from foretoken.cache.tree import Bytes
from foretoken.errors import ForetokenError
from foretoken.ids import Ids

SUFFIX = ".state"
_MAGIC = b"FORETOK1"
_LENGTH = struct.Struct("<I")
_DIGEST = 16
_MAX_HEADER = 4096
_PARTS: tuple[Part, ...] = ("cells", "state")


class BrokenFile(ForetokenError):
    """The file is not what it should be: cut off, changed, or something else altogether."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says about itself before its payload."""

    fingerprint: str
    """The model, the library and the settings that the bytes depend on."""
    owner: str
    n_tokens: int
    sizes: Mapping[Part, int]

    @property
    def n_payload(self) -> int:
        return 4 * self.n_tokens + sum(self.sizes.values())


@dataclass(frozen=True, slots=True)
class Saved:
    """A sequence, or a part of one, with the text it belongs to."""

    fingerprint: str
    owner: str
    tokens: Ids
    parts: Mapping[Part, Bytes]


def file_size(n_tokens: int, n_bytes: int) -> int:
    """Bytes that a file with these contents has at most."""
    return len(_MAGIC) + _LENGTH.size + _MAX_HEADER + 4 * n_tokens + n_bytes + _DIGEST


def write(path: Path, saved: Saved) -> int:
    """Write a file whole or not at all; returns its size."""
    sizes = {part: saved.parts[part].nbytes for part in _PARTS if part in saved.parts}
    facts = {"fingerprint": saved.fingerprint, "owner": saved.owner, "n_tokens": len(saved.tokens), "sizes": sizes}
    header = json.dumps(facts).encode()
    pieces: list[bytes | memoryview] = [_MAGIC, _LENGTH.pack(len(header)), header, saved.tokens.astype("<i4").tobytes()]
    pieces += [saved.parts[part].data for part in sizes]
    checksum = hashlib.blake2b(digest_size=_DIGEST)
    aside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            for piece in pieces:
                checksum.update(piece)
                file.write(piece)
            file.write(checksum.digest())
            size = file.tell()
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    return size


def peek(path: Path) -> tuple[Header, Ids, int]:
    """The header, the tokens and the size of a file that is as long as it says; its checksum is not looked at."""
    with path.open("rb") as file:
        header = _header(file, hashlib.blake2b())
        tokens = np.frombuffer(file.read(4 * header.n_tokens), "<i4").astype(np.int32)
        return header, tokens, os.fstat(file.fileno()).st_size


def read(path: Path) -> Saved:
    """The whole of a file, proved by its checksum."""
    checksum = hashlib.blake2b(digest_size=_DIGEST)
    with path.open("rb") as file:
        header = _header(file, checksum)
        tokens = _take(file, 4 * header.n_tokens, checksum).view("<i4").astype(np.int32)
        parts = {part: _take(file, size, checksum) for part, size in header.sizes.items()}
        if file.read(_DIGEST) != checksum.digest():
            raise BrokenFile(f"{path} does not match its checksum")
    return Saved(header.fingerprint, header.owner, tokens, parts)


def _header(file: BinaryIO, checksum: hashlib.blake2b) -> Header:
    start = file.read(len(_MAGIC) + _LENGTH.size)
    if len(start) < len(_MAGIC) + _LENGTH.size or not start.startswith(_MAGIC):
        raise BrokenFile(f"{file.name} is no state that this version of foretoken wrote")
    (length,) = _LENGTH.unpack(start[len(_MAGIC) :])
    text = file.read(min(length, _MAX_HEADER))
    checksum.update(start)
    checksum.update(text)
    try:
        facts = json.loads(text)
        sizes = {part: int(facts["sizes"][part]) for part in _PARTS if part in facts["sizes"]}
        header = Header(str(facts["fingerprint"]), str(facts["owner"]), int(facts["n_tokens"]), sizes)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise BrokenFile(f"{file.name} has no readable header") from error
    if length > _MAX_HEADER or header.n_tokens < 0 or any(size < 0 for size in sizes.values()):
        raise BrokenFile(f"{file.name} has no sensible header")
    if (size := os.fstat(file.fileno()).st_size) != (wanted := file.tell() + header.n_payload + _DIGEST):
        raise BrokenFile(f"{file.name} is {size} bytes long instead of {wanted}")
    return header


def _take(file: BinaryIO, size: int, checksum: hashlib.blake2b) -> Bytes:
    data = np.empty(size, np.uint8)
    if file.readinto(data.data) != size:  # type: ignore[attr-defined]
        raise BrokenFile(f"{file.name} is cut off")
    checksum.update(data.data)
    return data
