"""The layout's traps stay closed: one namespace over several roots."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PURE = (
    "proto/quorate/protocol",
    "store/quorate/store/rules",
    "source/quorate/source/protocol",
    "receiver/quorate/receiver/protocol",
    "subscriber/quorate/subscriber/protocol",
    "queue/quorate/queue/protocol",
)
"""Folders of rules. pyproject.toml says what they may import."""
EXCEPTIONS = {
    "Rules have no clock, no I/O, no gRPC and no protobuf": 29,
    "The SDKs do without RocksDB": 4,
    "Only the pipeline knows Spark": 1,
}
"""How many imports pyproject.toml excepts from each contract. The numbers only shrink."""
PORTIONS = sorted(path for path in ROOT.glob("*/quorate") if path.is_dir())


def test_there_are_portions() -> None:
    assert len(PORTIONS) >= 5


@pytest.mark.parametrize("portion", PORTIONS, ids=lambda path: path.parent.name)
def test_no_root_owns_the_namespace(portion: Path) -> None:
    assert not (portion / "__init__.py").exists()


@pytest.mark.parametrize("portion", PORTIONS, ids=lambda path: path.parent.name)
def test_nothing_importable_lies_beside_the_namespace(portion: Path) -> None:
    assert list(portion.parent.glob("*.py")) == []


@pytest.mark.parametrize("portion", PORTIONS, ids=lambda path: path.parent.name)
def test_every_package_is_typed(portion: Path) -> None:
    packages = [path for path in portion.iterdir() if path.is_dir() and path.name != "__pycache__"]
    assert [path.name for path in packages if not (path / "py.typed").exists()] == []


@pytest.mark.parametrize("portion", PORTIONS, ids=lambda path: path.parent.name)
def test_modules_stay_small(portion: Path) -> None:
    lengths = {
        path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines())
        for path in portion.rglob("*.py")
        if "_pb2" not in path.name
    }
    assert {path: length for path, length in lengths.items() if length > 800} == {}


@pytest.mark.parametrize("folder", PURE)
def test_rules_wait_for_nothing(folder: str) -> None:
    waiting = [
        f"{path.relative_to(ROOT).as_posix()}:{node.lineno}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
    ]
    assert (ROOT / folder / "__init__.py").exists()
    assert waiting == []


def test_the_exceptions_from_the_import_contracts_only_shrink() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    found = {
        each["name"]: len(each["ignore_imports"]) for each in contracts if "ignore_imports" in each
    }
    # Where there are fewer than here, lower the number here.
    assert found == EXCEPTIONS
