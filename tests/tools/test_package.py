"""The wheel as it is built: it has every part, and its commands run from it."""

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from tools import package
from tools.package import (
    IMPORTS,
    NO_EXTRA,
    PROJECT,
    PYTHONS,
    ROOT,
    VERSION,
    Built,
    Failed,
    interpreter,
)

_PATIENCE_SECONDS = 300.0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", directory, ROOT],
        capture_output=True,
        check=True,
        timeout=_PATIENCE_SECONDS,
    )
    return directory / f"quorate-{VERSION}-py3-none-any.whl"


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the wheel's content and scripts, and nothing of this checkout."""
    directory = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--target"]
    subprocess.run([*pip, directory, wheel], check=True, timeout=_PATIENCE_SECONDS)
    return directory


def from_wheel(installed: Path, *arguments: str | Path) -> str:
    """Return the output of a program that finds the wheel, its dependencies, and no checkout."""
    # With -S the .pth file that leads to the checkout is not read.
    path = f"{installed}:{sysconfig.get_path('purelib')}"
    return subprocess.run(
        [sys.executable, "-S", *arguments],
        cwd=installed,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=_PATIENCE_SECONDS,
    ).stdout


def files_of_checkout() -> set[str]:
    """Return the files of all parts, as they are to be named in the wheel."""
    parts = [path for path in ROOT.glob("*/quorate") if path.is_dir()]
    parts.append(ROOT / "pipeline" / "pyspark_quorate")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *parts],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {line.partition("/")[2] for line in listed.stdout.splitlines() if (ROOT / line).exists()}


def test_every_file_of_every_part_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        names = {name for name in content.namelist() if ".dist-info/" not in name}
    assert names == files_of_checkout()
    packages = {"/".join(name.split("/")[:2]) for name in names if name.startswith("quorate/")}
    assert {f"quorate/{part}" for part in ("client", "store", "protocol", "v1")} < packages


def test_both_commands_run_from_the_wheel(installed: Path) -> None:
    for command in ("quorate", "quorated"):
        said = from_wheel(installed, installed / "bin" / command, "--version")
        assert said == f"quorate {VERSION}\n"


def test_each_part_is_imported_from_the_wheel(installed: Path) -> None:
    names = sorted(path.name for path in (installed / "quorate").iterdir() if path.is_dir())
    program = (
        f"import importlib\nfor name in {names}:\n"
        "    print(importlib.import_module(f'quorate.{name}').__file__)"
    )
    files = from_wheel(installed, "-c", program).splitlines()
    expected = [str(installed / "quorate" / name / "__init__.py") for name in names]
    assert [file for file in files if file != "None"] == [
        path for path in expected if Path(path).exists()
    ]


def test_each_extra_has_modules_that_show_it_works() -> None:
    assert set(IMPORTS) == {NO_EXTRA, *PROJECT["optional-dependencies"]}


def test_each_supported_python_is_named_to_users() -> None:
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert tuple(named) == PYTHONS
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"


def test_the_python_that_runs_is_found_and_one_that_is_not_there_is_not() -> None:
    mine = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert interpreter(mine) is not None
    assert interpreter("3.0") is None


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, str]]:
    """Return the installations, none of which is made. This machine has Python 3.12 and 3.13."""
    made: list[tuple[Path, str]] = []
    there = {version: Path(f"/opt/python{version}") for version in ("3.12", "3.13")}

    def check(python: Path, _: Path, extra: str) -> None:
        made.append((python, extra))
        if (python, extra) == (there["3.13"], "store"):
            raise Failed("pip failed")

    monkeypatch.setattr(package, "interpreter", there.get)
    monkeypatch.setattr(package, "build", lambda _: Built(Path(__file__), Path(__file__)))
    monkeypatch.setattr(package, "check_installation", check)
    return made


def test_the_pythons_that_were_tried_and_those_that_are_not_there_are_told(
    checked: list[tuple[Path, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package.package(tmp_path, ("3.11", "3.12", "3.14"), (NO_EXTRA,))
    assert checked == [(Path("/opt/python3.12"), NO_EXTRA)] * 2
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "tried: Python 3.12, /opt/python3.12",
        "NOT TRIED: Python 3.11 is not on this machine. Install it, and run "
        '`make package PYTHONS="3.11"`',
        "NOT TRIED: Python 3.14 is not on this machine. Install it, and run "
        '`make package PYTHONS="3.14"`',
    ]


def test_an_installation_that_fails_does_not_hide_what_was_tried(
    checked: list[tuple[Path, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Failed, match=r"Python 3\.13, extra store: pip failed"):
        package.package(tmp_path, ("3.12", "3.13"), ("store",))
    assert len(checked) == 4
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "ok: Python 3.13, from the sdist",
        "tried: Python 3.12, /opt/python3.12",
        "tried: Python 3.13, /opt/python3.13",
    ]


def test_without_any_of_the_pythons_nothing_is_built(
    checked: list[tuple[Path, str]], tmp_path: Path
) -> None:
    with pytest.raises(Failed, match=r"none of the chosen Pythons:\nNOT TRIED: Python 3\.14"):
        package.package(tmp_path, ("3.14",), (NO_EXTRA,))
    assert not checked
