"""The wheel as it is built: it has every part, and its commands run from it."""

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from tools.package import IMPORTS, NO_EXTRA, PROJECT, PYTHONS, ROOT, VERSION, interpreter

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
