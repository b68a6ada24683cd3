"""Files get their names in quorate.disk alone: there a file is on the disk before its name is.

The exceptions say in their modules why nothing has to be on the disk.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = (*(path.parent.name for path in sorted(ROOT.glob("*/quorate"))), "bench", "tools")
PLACE = "proto/quorate/disk/files.py: rename"
EXCEPTIONS = [
    "pipeline/quorate/pipeline/spark/java.py: rename",  # a directory of files that can be made anew
    "source/quorate/source/publish_store/segment.py: rename",
    "source/quorate/source/publish_store/segment.py: rename",
    "source/quorate/source/publish_store/segment.py: rename",
]


def renames(source: str) -> Iterator[str]:
    """Yield each call of a module that renames a file.

    `replace` with one argument is that of a path: texts take two, and others take names.
    """
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Attribute(attr="rename" | "renames" as name)):
                yield name
            case ast.Call(func=ast.Attribute(ast.Name("os"), "replace")):
                yield "os.replace"
            case ast.Call(func=ast.Attribute(attr="replace"), args=[_], keywords=[]):
                yield "replace"
            case ast.Call(func=ast.Attribute(ast.Name("shutil"), "move")):
                yield "shutil.move"
            case ast.ImportFrom(module="os" | "shutil" as module, names=names):
                yield from (
                    f"{module}.{each.name}"
                    for each in names
                    if each.name in ("rename", "renames", "replace", "move")
                )


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("new.rename(path)", ["rename"]),
        ("os.rename(new, path)", ["rename"]),
        ("os.replace(new, path)", ["os.replace"]),
        ("new.replace(path)", ["replace"]),
        ("shutil.move(new, path)", ["shutil.move"]),
        ("from os import replace", ["os.replace"]),
        ("text.replace('a', 'b')", []),
        ("moment.replace(tzinfo=UTC)", []),
        ("dataclasses.replace(record, live=True)", []),
    ],
)
def test_a_rename_is_found(source: str, found: list[str]) -> None:
    assert list(renames(source)) == found


def test_no_other_module_renames_files() -> None:
    found = [
        f"{path.relative_to(ROOT).as_posix()}: {name}"
        for part in PARTS
        for path in sorted((ROOT / part).rglob("*.py"))
        if re.search("rename|replace|shutil", text := path.read_text())
        for name in renames(text)
    ]
    assert sorted(found) == sorted([PLACE, *EXCEPTIONS])
