"""The documents name what exists: their links, their modules and their tests lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from tests.brute_force.states import Rules

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
DOCUMENTS = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md")))


def without_code(text: str) -> str:
    """Return the text of a document without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.M | re.S)


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives the headings of a document.

    Letters become small, blanks become hyphens, and other marks than hyphens and underscores go.
    The second heading of the same words gets a number.
    """
    found = list[str]()
    for heading in re.findall(r"^#+ +(.*?)[ #]*$", without_code(text), re.M):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        found.append(re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-"))
    return {
        f"{anchor}-{before}" if (before := found[:place].count(anchor)) else anchor
        for place, anchor in enumerate(found)
    }


def relative_links(text: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the anchor of each link that names no other site."""
    for target in re.findall(r"\]\(([^)\s]+)[^)]*\)", without_code(text)):
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield path, anchor


def broken_links(document: Path) -> Iterator[str]:
    """Yield each relative link of a document that leads nowhere."""
    for path, anchor in relative_links(document.read_text()):
        target = document.parent / path if path else document
        if not target.exists():
            yield f"{path}: there is no such file"
        elif anchor and anchor not in anchors(target.read_text()):
            yield f"{path}#{anchor}: there is no such heading"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(document: Path) -> None:
    assert list(broken_links(document)) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# `quorate top`: a, b\n\n## Twice\n\n## Twice\n")
    document = tmp_path / "document.md"
    document.write_text(
        "[a](other.md) [b](other.md#quorate-top-a-b) [c](other.md#twice-1) [d](https://x.org/#e)\n"
        "[f](none.md) [g](other.md#twice-2) [h](#twice)\n\n```\n# Twice\n[i](none.md)\n```\n"
    )
    assert [broken.split(":")[0] for broken in broken_links(document)] == [
        "none.md",
        "other.md#twice-2",
        "#twice",
    ]


def short(module: Path) -> str:
    """Return the path of a module as docs/architecture.md writes it.

    For example, `store/rules/retention.py` and `protocol/policy.py`.
    """
    path = module.relative_to(ROOT).as_posix()
    return re.sub(r"^proto/quorate/|(?<=/)quorate/\w+/", "", path)


def test_every_module_that_the_architecture_names_exists() -> None:
    modules = list(ROOT.glob("*/quorate/**/*.py"))
    paths = [f"/{path}" for path in (*map(short, modules), *map(str, modules))]
    named = set(re.findall(r"[\w/]+\.py\b", (DOCS / "architecture.md").read_text()))
    assert len(named) > 30
    assert [
        name for name in sorted(named) if not any(path.endswith(f"/{name}") for path in paths)
    ] == []


PROTOCOL = " ".join((DOCS / "protocol.md").read_text().split())
KINDS = {"guard": "guards?", "model rule": "model rules?", "story": "stor(?:y|ies)"}


def cited(kind: str) -> set[str]:
    """Return the names of this kind that docs/protocol.md cites."""
    lists: list[str] = re.findall(rf"\b{KINDS[kind]} (`\w+`(?:,? (?:and )?`\w+`)*)", PROTOCOL)
    return {name for names in lists for name in re.findall(r"\w+", names)} - {"and"}


def cited_tests() -> set[str]:
    """Return the tests that docs/protocol.md cites."""
    return set(re.findall(r"`(test_\w+)`", PROTOCOL))


def functions(modules: Iterable[Path]) -> set[str]:
    """Return the name of every function in these modules, those of classes too."""
    return {
        name
        for module in modules
        for name in re.findall(r"^ *(?:async )?def (\w+)\(", module.read_text(), re.M)
    }


def test_every_test_that_the_protocol_cites_exists() -> None:
    assert cited_tests() - functions((ROOT / "tests").rglob("test_*.py")) == set()


def test_every_guard_that_the_protocol_cites_exists() -> None:
    patches = functions((ROOT / "tests/world").glob("*.py"))
    assert cited("guard") - {patch.removeprefix("_") for patch in patches} == set()


def test_every_model_rule_that_the_protocol_cites_exists() -> None:
    assert cited("model rule") - {rule.name for rule in fields(Rules)} == set()


def test_every_story_that_the_protocol_cites_exists() -> None:
    stories = {path.stem for path in (ROOT / "tests/transcripts/stories").glob("*.txt")}
    assert cited("story") - stories == set()


def test_whatever_holds_a_rule_is_looked_for() -> None:
    held = re.findall(r"\*\*Held by:\*\* (.*?\.)(?= |$)", PROTOCOL)
    assert len(held) > 50
    names = {name for names in held for name in re.findall(r"`(\w+)`", names)}
    assert names - cited_tests() - {name for kind in KINDS for name in cited(kind)} == set()


@pytest.mark.parametrize(
    ("document", "lines"),
    [("CHANGELOG.md", 100), ("README.md", 150), ("docs/architecture.md", 150)],
)
def test_a_page_that_is_read_first_stays_short(document: str, lines: int) -> None:
    assert len((ROOT / document).read_text().splitlines()) <= lines


TESTING = (DOCS / "testing.md").read_text()


def listed(mark: str) -> set[str]:
    """Return the modules of tests that docs/testing.md lists for this mark.

    A folder stands for all its modules that have the mark.
    """
    table = TESTING.split(f"mark `{mark}` runs in")[1].split("| where | what |")[1].split("\n\n")[0]
    found = set[str]()
    for place in re.findall(r"^\| `(.+?)` \|", table, re.M):
        path = ROOT / place
        modules = path.rglob("test_*.py") if path.is_dir() else ROOT.glob(place)
        those = {each for each in modules if marked(each, mark)}
        assert those, f"no test in {place} has the mark {mark}"
        found |= {each.relative_to(ROOT).as_posix() for each in those}
    return found


def marked(module: Path, mark: str) -> bool:
    """Return whether a test of this module has the mark."""
    return re.search(rf"\bmark\.{mark}\b", module.read_text()) is not None


@pytest.mark.parametrize("mark", ["long", "big"])
def test_every_test_with_a_mark_is_listed(mark: str) -> None:
    modules = [each for each in (ROOT / "tests").rglob("test_*.py") if marked(each, mark)]
    assert listed(mark) == {each.relative_to(ROOT).as_posix() for each in modules}
