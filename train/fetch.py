"""Download the packages named in packages.txt with pip and apt-get, each by its registry name."""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Package:
    """One line item of packages.txt."""

    registry: str
    name: str
    held_out: bool


def read_packages(path: Path = HERE / "packages.txt") -> Iterator[Package]:
    """Yield the packages of the list in its own order."""
    registry = ""
    for line in path.read_text().splitlines():
        if line.startswith("["):
            registry = line.strip("[] ")
        elif not line.startswith("#"):
            yield from (Package(registry, word.lstrip("!"), word.startswith("!")) for word in line.split())


def fetch_wheel(package: Package, folder: Path) -> bool:
    """Download the newest wheel of a package; its dependencies are not wanted."""
    target = folder / package.registry / package.name
    if target.exists():
        return any(target.iterdir())
    target.mkdir(parents=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--dest", str(target), package.name]
    return subprocess.run(command, capture_output=True, timeout=600).returncode == 0


def source_options(folder: Path) -> list[str]:
    """Point apt-get at source packages of the sources it knows, without touching the system's own set-up."""
    parts = folder / "apt" / "sources.list.d"
    lists = folder / "apt" / "lists"
    parts.mkdir(parents=True, exist_ok=True)
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    text = Path("/etc/apt/sources.list.d/debian.sources").read_text()
    (parts / "sources.sources").write_text(re.sub(r"^Types: deb$", "Types: deb-src", text, flags=re.M))
    options = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": parts,
        "Dir::State::lists": lists,
    }
    return [word for key, value in options.items() for word in ("-o", f"{key}={value}")]


def fetch_source(package: Package, folder: Path, options: list[str]) -> bool:
    """Download the source archives of a Debian package without unpacking them."""
    target = folder / package.registry / package.name
    if target.exists():
        return any(target.iterdir())
    target.mkdir(parents=True)
    command = ["apt-get", *options, "source", "--download-only", "-qq", package.name]
    return subprocess.run(command, cwd=target, capture_output=True, timeout=900).returncode == 0


def main() -> None:
    """Fetch everything that is not there yet and say what could not be had."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=HERE / "work" / "downloads")
    parser.add_argument("--registry", choices=("python", "debian"), action="append")
    parser.add_argument("--names", nargs="*", help="only these packages of the list")
    parser.add_argument("--jobs", type=int, default=4)
    args = parser.parse_args()
    folder = args.folder.resolve()
    packages = [p for p in read_packages() if not args.registry or p.registry in args.registry]
    packages = [p for p in packages if not args.names or p.name in args.names]
    options: list[str] = []
    if any(p.registry == "debian" for p in packages):
        options = source_options(folder)
        subprocess.run(["apt-get", *options, "update", "-qq"], check=True)

    def fetch(package: Package) -> bool:
        try:
            if package.registry == "python":
                return fetch_wheel(package, folder)
            return fetch_source(package, folder, options)
        except subprocess.TimeoutExpired:
            return False

    with ThreadPoolExecutor(args.jobs) as pool:
        fetched = list(pool.map(fetch, packages))
    missing = [p.name for p, ok in zip(packages, fetched, strict=True) if not ok]
    print(f"{sum(fetched)} of {len(packages)} fetched; not to be had: {' '.join(missing) or 'none'}")


if __name__ == "__main__":
    main()
