"""`make package`: builds the sdist and the wheel, and installs them as users would.

Each extra is installed into a fresh environment of its own, by each Python that this machine has.
The last lines say which Pythons were tried, and which are not on this machine. Nothing here
publishes anything.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION: str = PROJECT["version"]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""The versions of Python that Quorate supports."""
NO_EXTRA = "none"
"""The name of an installation without any extra."""

IMPORTS = {
    NO_EXTRA: (
        "quorate.client", "quorate.errors", "quorate.source.blocking", "quorate.receiver.blocking",
        "quorate.subscriber", "quorate.transport.channels", "quorate.v1.store_pb2_grpc",
        "quorate.disk", "quorate.console.main",
    ),
    "store": ("quorate.store.node",),
    "fast": ("quorate.transport.event_loop", "uvloop"),
    "certificates": ("quorate.console.group.certificate_files",),
    "jwt": ("quorate.transport.jwt_tokens", "jwt"),
    "otel": ("quorate.transport.tracing", "opentelemetry.trace"),
    "archive": ("quorate.archive.history",),
    "query": ("quorate.subscriber.io.sql", "duckdb", "pyarrow"),
    "spark": ("quorate.pipeline.jobs", "pyspark_quorate", "pyspark.sql.connect.client"),
    "plot": ("quorate.pipeline.jobs", "matplotlib"),
    "bench": ("quorate.console.bench.usage",),
    "peers": ("quorate.console.bench.usage", "confluent_kafka", "nats", "redis", "rstream"),
    "test": ("quorate.store.node", "pytest", "hypothesis"),
    "dev": ("quorate.store.node", "quorate.pipeline.jobs", "mypy"),
}  # fmt: skip
"""The modules that can be imported once an extra is installed, by the extra's name."""


@dataclass(frozen=True, slots=True)
class Built:
    """The two files of a release."""

    wheel: Path
    sdist: Path


class Failed(Exception):
    """A step that did not work. The text says which one."""


def run(*command: str | Path, directory: Path | None = None) -> str:
    """Return the output of a command. Raises Failed with its output."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=directory,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout


def clean_environment() -> dict[str, str]:
    """Return this environment without the variables that would show Python this checkout."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}


def build(directory: Path) -> Built:
    """Build the sdist, and the wheel from the sdist, and have twine check them."""
    for old in directory.glob("quorate-*"):
        old.unlink()
    run(sys.executable, "-m", "build", "--outdir", directory, ROOT)
    built = Built(
        directory / f"quorate-{VERSION}-py3-none-any.whl", directory / f"quorate-{VERSION}.tar.gz"
    )
    run(sys.executable, "-m", "twine", "check", "--strict", built.wheel, built.sdist)
    return built


def interpreter(version: str) -> Path | None:
    """Return the Python of this version that this machine has; None: it has none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = shutil.which(f"python{version}")
    candidates = [Path(found)] if found else []
    candidates += sorted(pyenv.glob(f"{version}.*/bin/python"), reverse=True)
    for candidate in candidates:
        asked = subprocess.run(
            [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
            capture_output=True,
            text=True,
            check=False,
        )
        if asked.stdout.strip() == version:
            return candidate
    return None


def check_installation(python: Path, distribution: Path, extra: str) -> None:
    """Install a distribution into a fresh environment, and use it there. Raises Failed."""
    wanted = str(distribution) if extra == NO_EXTRA else f"{distribution}[{extra}]"
    with tempfile.TemporaryDirectory(prefix="quorate-package-") as directory:
        environment = Path(directory) / "environment"
        run(python, "-m", "venv", environment)
        there = environment / "bin" / "python"
        run(there, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted)
        run(there, "-m", "pip", "check", "--disable-pip-version-check")
        for module in IMPORTS[extra]:
            run(there, "-c", f"import {module}", directory=Path(directory))
        said = run(environment / "bin" / "quorate", "--version")
        if said != f"quorate {VERSION}\n":
            raise Failed(f"quorate --version says {said!r} instead of {VERSION}")


@dataclass(frozen=True, slots=True)
class Pythons:
    """The chosen versions of Python, as far as this machine has them."""

    found: dict[str, Path]
    """The interpreters of those that are there, by version."""
    missing: tuple[str, ...]

    @classmethod
    def among(cls, versions: Sequence[str]) -> Pythons:
        """Look for these versions on this machine."""
        found = {version: python for version in versions if (python := interpreter(version))}
        return cls(found, tuple(version for version in versions if version not in found))

    def __str__(self) -> str:
        """Return which were tried and which not, for people."""
        tried = (f"tried: Python {version}, {path}" for version, path in self.found.items())
        skipped = (
            f"NOT TRIED: Python {version} is not on this machine. Install it, and run "
            f'`make package PYTHONS="{version}"`'
            for version in self.missing
        )
        return "\n".join((*tried, *skipped))


def installations(
    built: Built, pythons: Pythons, extras: Sequence[str]
) -> Iterator[tuple[str, Path, Path, str]]:
    """Yield what is to be installed: a name, the interpreter, the distribution and the extra."""
    for version, python in pythons.found.items():
        for extra in extras:
            yield f"Python {version}, extra {extra}", python, built.wheel, extra
        yield f"Python {version}, from the sdist", python, built.sdist, NO_EXTRA


def package(directory: Path, versions: Sequence[str], extras: Sequence[str]) -> Built:
    """Build everything and check each installation. Raises Failed after the last of them."""
    pythons = Pythons.among(versions)
    if not pythons.found:
        raise Failed(f"this machine has none of the chosen Pythons:\n{pythons}")
    built = build(directory)
    for path in (built.wheel, built.sdist):
        print(f"built {path.name}, {path.stat().st_size:,} bytes", flush=True)
    problems: list[str] = []
    for name, python, distribution, extra in installations(built, pythons, extras):
        try:
            check_installation(python, distribution, extra)
        except Failed as error:
            problems.append(f"{name}: {error}")
            print(f"FAILED: {name}", flush=True)
        else:
            print(f"ok: {name}", flush=True)
    print(pythons, flush=True)
    if problems:
        raise Failed("\n".join(problems))
    return built


def main() -> int:
    """Build and check; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, default=ROOT / "dist")
    parser.add_argument("--pythons", nargs="+", choices=PYTHONS, default=PYTHONS)
    parser.add_argument("--extras", nargs="+", choices=tuple(IMPORTS), default=tuple(IMPORTS))
    chosen = parser.parse_args()
    try:
        package(chosen.directory, chosen.pythons, chosen.extras)
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
