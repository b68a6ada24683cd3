"""The project's English: no package breaks its rule more often than it did.

Whoever mends text lowers the count here in the same commit, so that it can only fall.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.english import PLACES, ROOT, breaches, files

COUNTS = {
    "proto/quorate/protocol": 0,
    "proto/quorate/transport": 0,
    "proto/quorate/disk": 0,
    "proto/quorate/archive": 0,
    "proto/quorate/v1": 0,
    "store": 0,
    "source": 0,
    "receiver": 0,
    "subscriber": 0,
    "client": 0,
    "queue": 0,
    "pipeline": 0,
    "console": 0,
    "bench": 0,
    "tools": 0,
    "docs": 0,
    "README.md": 0,
    "CHANGELOG.md": 0,
}
"""How many breaches each package still has."""


@pytest.mark.parametrize("package", COUNTS)
def test_no_package_breaks_the_rule_more_often_than_before(package: str) -> None:
    found = [str(breach) for path in files([ROOT / package]) for breach in breaches(path)]
    assert len(found) == COUNTS[package], "\n".join(found)


def test_every_text_of_the_project_is_counted() -> None:
    places = {place: files([ROOT / place]) for place in PLACES}
    counted = {path for package in COUNTS for path in files([ROOT / package])}
    assert {path for found in places.values() for path in found} <= counted


def test_every_package_is_a_place_of_text() -> None:
    assert {path.parent.name for path in ROOT.glob("*/quorate")} <= set(PLACES)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('"""Have the next round begin at once."""', "opens with Have"),
        ('"""The same, of a source that is gone."""', "opens with The same"),
        ('"""Return it. Who is alone waits for nobody."""', "begins with Who"),
        ("x = 'A store can not vouch.'", "can not"),
        ("# A comment\n# that can\n# not be read", "can not"),
        ("x = f'" + "word {y} " * 13 + "'", "26 words"),
        ("x = '" + "word " * 26 + "'", "26 words"),
    ],
)
def test_a_breach_is_found(tmp_path: Path, text: str, rule: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(text)
    assert [breach.rule for breach in breaches(path)] == [rule]


@pytest.mark.parametrize(
    "text",
    [
        '"""Return the stores that report this deletion. Each is asked once."""',
        "x = '" + "word " * 25 + ". " + "Word " * 25 + "'",
        "x = 'What is a store?'",
        "# It cannot be read.",
        "x = 1  # noqa: E501",
    ],
)
def test_plain_text_breaks_no_rule(tmp_path: Path, text: str) -> None:
    path = tmp_path / "module.py"
    path.write_text(text)
    assert breaches(path) == []


def test_code_in_a_document_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "document.md"
    path.write_text("A store.\n\n```\nyou can not read this\n```\n\n| a cell | that can not |\n")
    assert [(breach.line, breach.rule) for breach in breaches(path)] == [(7, "can not")]
