"""The table of seams is true and complete: tests replace nothing of the product but seams."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import seams
from tests.seams import Seam

TESTS = Path(__file__).parent
TABLE = TESTS / "seams.py"
SEAMS = {name: seam for name, seam in vars(seams).items() if isinstance(seam, Seam)}
REPLACES = {"setattr", "delattr", "setitem", "delitem", "patch", "object", "multiple", "dict"}
"""Names of the functions that replace something of their first argument."""


def texts() -> dict[str, str]:
    """Return the text of each file of the tests but the table, by its path."""
    return {
        path.relative_to(TESTS).as_posix(): path.read_text()
        for path in sorted(TESTS.rglob("*.py"))
        if path != TABLE
    }


def nodes(text: str) -> list[ast.AST]:
    """Return every node of the syntax of a text."""
    return [*ast.walk(ast.parse(text))]


def imported(found: list[ast.AST]) -> Iterator[str]:
    """Yield the names that imports from the product bind."""
    for node in found:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            path, names = f"{node.module}.", node.names
        elif isinstance(node, ast.Import):
            path, names = "", node.names
        else:
            continue
        for name in names:
            if f"{path}{name.name}.".startswith("quorate."):
                yield name.asname or name.name.partition(".")[0]


def begins_with(node: ast.expr) -> str:
    """Return the name that a dotted expression begins with, and nothing of any other one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def product(found: list[ast.AST]) -> set[str]:
    """Return the names of the product: the imported ones, and other names for them."""
    names = set(imported(found))
    for node in found:
        if isinstance(node, ast.For):
            targets, value = [node.target], node.iter
        elif isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        else:
            continue
        values = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
        if any(begins_with(each) in names for each in values):
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def without_seam(found: list[ast.AST]) -> list[int]:
    """Return the lines that replace something of the product without a seam."""
    names, lines = product(found), []
    for node in found:
        owners: list[ast.expr] = []
        if isinstance(node, ast.Call) and node.args:
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else begins_with(called)
            owners = node.args[:1] if name in REPLACES else []
        elif isinstance(node, ast.Assign | ast.Delete):
            owners = [target for target in node.targets if isinstance(target, ast.Attribute)]
        for owner in owners:
            path = owner.value if isinstance(owner, ast.Constant) else ""
            if begins_with(owner) in names or str(path).startswith("quorate."):
                lines.append(owner.lineno)
    return lines


@pytest.mark.parametrize("name", SEAMS)
def test_each_seam_is_in_the_product(name: str) -> None:
    assert SEAMS[name].module.startswith("quorate.")
    if SEAMS[name].module.startswith(("quorate.archive.", "quorate.pipeline.")):
        pytest.importorskip("deltalake", reason="the extra archive is not installed")
        pytest.importorskip("pyarrow", reason="the extra archive is not installed")
    if SEAMS[name].module.startswith("quorate.pipeline."):
        pytest.importorskip("pyspark", reason="the extra spark is not installed")
    SEAMS[name].real()


def test_the_path_of_each_module_stands_in_the_table_once() -> None:
    strings = [
        node.value
        for node in ast.walk(ast.parse(TABLE.read_text()))
        if isinstance(node, ast.Constant) and str(node.value).startswith("quorate.")
    ]
    assert len(strings) == len(set(strings))
    assert set(strings) == {seam.module for seam in SEAMS.values()}


def test_each_place_has_one_name() -> None:
    assert len(set(SEAMS.values())) == len(SEAMS)


def test_some_test_uses_each_seam() -> None:
    used = {name for text in texts().values() for name in re.findall(r"\bseams\.([A-Z_]+)", text)}
    assert set(SEAMS) - used == set()


def test_no_test_replaces_something_of_the_product_without_a_seam() -> None:
    found = [
        f"tests/{path}:{line}"
        for path, text in texts().items()
        for line in without_seam(nodes(text))
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "to.setattr('quorate.store.node.StoreNode', None)",
        "from quorate.store.tasks import repair\nto.setattr(repair, 'ROUND_SECONDS', 1.0)",
        "from quorate.store.tasks import repair as it\nto.setattr(it.Repair, 'round', None)",
        "from quorate.protocol.policy import Policy\npatch.object(Policy, 'blocks', None)",
        "import quorate.store.node\nsetattr(quorate.store.node, 'x', 1)",
        "from quorate.store import node\nto.setitem(node.TABLE, 'x', 1)",
        "from quorate.store import node\nnode.SECONDS = 1",
        "from quorate.store import node\ndel node.SECONDS",
        "from quorate.store import a, b\nfor module in (a, b):\n  to.setattr(module, 'x', 1)",
        "def test():\n  from quorate.store import node\n  it = node\n  to.setattr(it, 'x', 1)",
    ],
)
def test_what_is_replaced_without_a_seam_is_found(text: str) -> None:
    assert len(without_seam(nodes(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "import time\nto.setattr(time, 'time', None)",
        "from tests.source.fake_store import FakeStore\nto.setattr(FakeStore, 'Begin', None)",
        "from quorate.store.node import StoreNode\nnode = StoreNode()\nto.setattr(node, 'x', 1)",
        "from tests import seams\nseams.REPAIR_ROUND_SECONDS.replace(to, 1.0)",
    ],
)
def test_what_is_no_part_of_the_product_may_be_replaced(text: str) -> None:
    assert without_seam(nodes(text)) == []


def test_a_seam_that_is_not_there_cannot_be_replaced() -> None:
    missing = Seam(seams.REPAIR, "Repair.no_such_method")
    with pytest.MonkeyPatch.context() as to, pytest.raises(AttributeError):
        missing.replace(to, None)


def test_a_seam_is_replaced_for_a_block() -> None:
    real = seams.REPAIR_ROUND_SECONDS.real()
    with seams.REPAIR_ROUND_SECONDS.replaced(0.5):
        assert seams.REPAIR_ROUND_SECONDS.real() == 0.5
    assert seams.REPAIR_ROUND_SECONDS.real() == real
