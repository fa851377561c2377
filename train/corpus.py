"""Read the downloaded packages: keep clean, permissively licensed text, drop duplicates, hold some out."""

import argparse
import csv
import hashlib
import lzma
import random
import re
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.parser import Parser
from multiprocessing import Pool
from pathlib import Path

from fetch import HERE, Package, read_packages
from licences import debian_licence, has_copyleft_header, is_permissive, wheel_licence

KINDS = {"py": "p", "c": "c", "h": "c", "java": "j", "md": "d", "rst": "d"}
PACKAGE_BYTES = {"python": 9_000_000, "debian": 5_000_000}
DOC_BYTES = 600_000
SEPARATOR = "\0"
SKIPPED_PATH = re.compile(
    r"/(_vendor|vendor(ed)?|site-packages|third_party|3rdparty|locales?|migrations|icons|validators)/|_pb2|/tests?/data/"
    r"|(^|/)(changelog|changes|news|history|authors|release)[^/]*$",
    re.I,
)
GENERATED = re.compile(r"auto-?generated|do not edit|generated (by|from)", re.I)


@dataclass(frozen=True, slots=True)
class Source:
    """What one package gave: its record and its documents (kind letter and text)."""

    package: Package
    version: str
    licence: str
    documents: list[tuple[str, str]]


def clean(text: str) -> str:
    """Normalise line ends and drop a leading licence comment, which would only be learned by heart."""
    text = text.replace("\r\n", "\n").replace("\x0c", "").replace(SEPARATOR, "").rstrip() + "\n"
    head = re.match(r"\s*/\*.*?\*/\s*", text, re.S) or re.match(r"(#!.*\n)?((#.*\n)|\n)*", text)
    if head and re.search(r"licen[sc]e|copyright", head.group(0), re.I):
        text = text[head.end() :]
    return text


def is_readable(text: str) -> bool:
    """Refuse tables of numbers, minified or generated files, and text that is mostly not ASCII."""
    lines = text.split("\n")
    if not 200 <= len(text) <= 300_000 or max(map(len, lines)) > 400 or len(text) / len(lines) > 75:
        return False
    sample = text[:20_000]
    digits = sum(map(sample.count, "0123456789"))
    foreign = len(sample.encode(errors="ignore")) - len(sample)
    return digits < 0.18 * len(sample) and foreign < 0.03 * len(sample) and not GENERATED.search(text[:600])


def wheel_files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a wheel that may hold text for us, its metadata first."""
    with zipfile.ZipFile(path) as archive:
        names = sorted(archive.namelist(), key=lambda name: not name.endswith("METADATA"))
        for name in names:
            if name.endswith(".dist-info/METADATA") or name.rpartition(".")[2] in KINDS:
                yield name, archive.read(name)


def tar_files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a source archive that may hold text for us."""
    with tarfile.open(path) as archive:
        for member in archive:
            wanted = member.name.rpartition(".")[2] in KINDS or member.name.endswith("debian/copyright")
            if member.isfile() and wanted and member.size < 400_000:
                stream = archive.extractfile(member)
                if stream:
                    yield member.name, stream.read()


def documents_of(files: list[tuple[str, str]], limit: int, rng: random.Random) -> list[tuple[str, str]]:
    """Pick up to a limit of clean documents in random order, few of them tests or prose."""
    rng.shuffle(files)
    kept: list[tuple[str, str]] = []
    total = prose = 0
    for name, text in files:
        kind = KINDS.get(name.rpartition(".")[2], "d")
        is_test = re.search(r"(^|/)tests?/|test_", name) is not None
        if SKIPPED_PATH.search(name) or (is_test and rng.random() < 0.5):
            continue
        text = clean(text)
        if not is_readable(text) or has_copyleft_header(text) or (kind == "d" and prose > DOC_BYTES):
            continue
        prose += len(text) if kind == "d" else 0
        total += len(text)
        kept.append((kind, text))
        if total > limit:
            break
    return kept


def read_package(task: tuple[Package, Path]) -> Source | None:
    """Read one downloaded package, or nothing if its licence is not permissive."""
    package, folder = task
    rng = random.Random(package.name)
    files: list[tuple[str, str]] = []
    version = licence = ""
    for path in sorted(folder.glob("*")):
        if path.suffix == ".whl":
            version, members = path.name.split("-")[1], wheel_files(path)
        elif re.search(r"\.tar\.(gz|xz|bz2)$", path.name):
            members = tar_files(path)
        elif path.suffix == ".dsc":
            version = path.stem.rpartition("_")[2]
            continue
        else:
            continue
        try:
            for name, data in members:
                text = data.decode(errors="ignore")
                if name.endswith("METADATA"):
                    metadata = Parser().parsestr(text)
                    licence = wheel_licence(metadata)
                    files.append(("README.md", str(metadata.get_payload())))
                elif name.endswith("debian/copyright"):
                    licence = debian_licence(text)
                else:
                    files.append((name, text))
        except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError, lzma.LZMAError):
            return None
    if not is_permissive(licence):
        return Source(package, version, licence, [])
    return Source(package, version, licence, documents_of(files, PACKAGE_BYTES[package.registry], rng))


class Duplicates:
    """Remembers documents by two hashes: of the whole, and of its beginning."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()

    def is_new(self, text: str) -> bool:
        """Tell whether neither hash was seen before, and remember both."""
        bare = re.sub(r"\s+", "", text)
        keys = {hashlib.md5(part.encode()).digest()[:8] for part in (bare, bare[200:1000])}
        if self.seen & keys:
            return False
        self.seen |= keys
        return True


def write_archives(documents: list[tuple[str, str]], folder: Path, stem: str, parts: int) -> None:
    """Write documents as xz archives, neighbours of one package together so that they compress well."""
    size = -(-len(documents) // parts)
    for number in range(parts):
        part = documents[number * size : (number + 1) * size]
        text = SEPARATOR.join(kind + body for kind, body in part)
        (folder / f"{stem}-{number:02}.xz").write_bytes(lzma.compress(text.encode(), preset=6))


def read_archive(path: Path) -> list[tuple[str, str]]:
    """Read back the documents of one archive as pairs of kind letter and text."""
    return [(doc[0], doc[1:]) for doc in lzma.decompress(path.read_bytes()).decode().split(SEPARATOR) if doc]


def main() -> None:
    """Build the corpus and its record of sources."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--downloads", type=Path, default=HERE / "work" / "downloads")
    parser.add_argument("--out", type=Path, default=HERE / "work" / "corpus")
    parser.add_argument("--record", type=Path, default=HERE / "sources.csv")
    parser.add_argument("--parts", type=int, default=32)
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    packages = sorted(read_packages(), key=lambda p: not p.held_out)
    tasks = [(p, folder) for p in packages if (folder := args.downloads / p.registry / p.name).exists()]
    with Pool(args.jobs) as pool:
        sources = [s for s in pool.imap(read_package, tasks) if s]
    duplicates = Duplicates()
    kept: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
    with args.record.open("w", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(["registry", "name", "version", "licence", "used_for", "documents", "bytes"])
        for source in sources:
            new = [(kind, text) for kind, text in source.documents if duplicates.is_new(text)]
            kept[source.package.held_out] += new
            if new:
                use = "evaluation" if source.package.held_out else "training"
                p, size = source.package, sum(len(text) for _, text in new)
                table.writerow([p.registry, p.name, source.version, source.licence, use, len(new), size])
    refused = [f"{s.package.name} ({s.licence[:40]})" for s in sources if not s.documents]
    print("no text or licence not accepted:", ", ".join(refused))
    for held_out, documents in kept.items():
        size = sum(len(text) for _, text in documents) / 1e6
        print("held out" if held_out else "training", len(documents), "documents", f"{size:.1f} MB")
    write_archives(kept[True], args.out, "heldout", 1)
    write_archives(kept[False], args.out, "train", args.parts)


if __name__ == "__main__":
    main()
