"""Every snippet of the documents is run by a test, or says why it is not.

Above a snippet that no test runs stands `<!-- not run: why -->`. Above a program that uses what it
does not define stands `<!-- fragment: why -->`. Each command line is parsed as the command parses
it, whether it is run or not.
"""

from __future__ import annotations

import builtins
import re
import shlex
import symtable
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.test_documents import DOCS, DOCUMENTS, ROOT

from quorate.console.main import COMMANDS, load

RUN_BY = {
    "README.md": "tests/console/test_tutorial.py",
    "docs/applications.md": "tests/client/test_applications.py",
    "docs/deploying.md": "tests/deploy/test_deploying_document.py",
    "docs/identities.md": "tests/store/test_identities_document.py",
    "docs/operating.md": "tests/console/test_operating_document.py",
    "docs/pipeline.md": "tests/pipeline/test_documentation.py",
    "docs/policies.md": "tests/source/test_policies_document.py",
    "docs/queues.md": "tests/queue/test_queues_document.py",
    "docs/receiving.md": "tests/receiver/test_receiving_document.py",
    "docs/replay.md": "tests/subscriber/test_replay_document.py",
    "docs/security.md": "tests/console/test_security_document.py",
    "docs/sending.md": "tests/client/test_sending_document.py",
    "docs/state.md": "tests/subscriber/test_state_document.py",
    "docs/tutorial.md": "tests/console/test_tutorial.py",
}
"""The test that runs the snippets of each document."""
PAGES = [
    path
    for path in DOCUMENTS
    if path.parent in (ROOT, DOCS) and path.name not in ("api.md", "CHANGELOG.md")
]


class Snippet(NamedTuple):
    """A block of code in a document."""

    page: str
    line: int
    language: str
    code: str
    marker: str
    """The kind of the comment above it, `not run` or `fragment`; empty: there is none."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def snippets(page: Path) -> Iterator[Snippet]:
    """Yield the blocks of a page that are Python or a console."""
    text = page.read_text()
    pattern = (
        r"^(?P<indent> *)(?:<!-- (?P<kind>not run|fragment): [^>]{10,} -->\n(?P=indent))?"
        r"```(?P<language>python|console|sh|bash|shell)\n(?P<code>.*?)^ *```$"
    )
    for found in re.finditer(pattern, text, re.M | re.S):
        yield Snippet(
            page.relative_to(ROOT).as_posix(),
            text.count("\n", 0, found.start()) + 1,
            found["language"],
            re.sub(rf"^{found['indent']}", "", found["code"], flags=re.M),
            found["kind"] or "",
        )


SNIPPETS = [snippet for page in PAGES for snippet in snippets(page)]
PYTHON = [snippet for snippet in SNIPPETS if snippet.language == "python"]


def undefined(code: str) -> set[str]:
    """Return the names that a program uses and nobody defines."""
    found = set[str]()
    # A cell of a notebook awaits outside of a function; a fragment may come from inside of one.
    code = re.sub(r"^(.*= )?await ", r"\1", code, flags=re.M)
    if code.startswith("    "):
        code = f"def function():\n{'    if True:' if code.startswith(' ' * 8) else ''}\n{code}"
    tables = [symtable.symtable(code, "-", "exec")]
    defined = {symbol.get_name() for symbol in tables[0].get_symbols() if symbol.is_assigned()}
    defined |= {symbol.get_name() for symbol in tables[0].get_symbols() if symbol.is_imported()}
    while tables:
        table = tables.pop()
        tables += table.get_children()
        for symbol in table.get_symbols():
            is_global = symbol.is_global() or table.get_type() == "module"
            if is_global and symbol.is_referenced():
                found.add(symbol.get_name())
    return found - defined - set(dir(builtins)) - {"__file__", "__name__"}


def test_the_documents_have_snippets() -> None:
    assert len(PYTHON) > 25
    assert len(SNIPPETS) > len(PYTHON) + 25
    fences = sum(len(re.findall(r"^ *```(?:python|console)$", p.read_text(), re.M)) for p in PAGES)
    assert fences == len(SNIPPETS)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=str)
def test_a_snippet_is_run_or_says_why_not(snippet: Snippet) -> None:
    if snippet.marker == "not run":
        return
    assert snippet.page in RUN_BY, f"{snippet}: name the test that runs it, or mark it"
    assert snippet.page.removeprefix("docs/") in (ROOT / RUN_BY[snippet.page]).read_text()


@pytest.mark.parametrize("snippet", PYTHON, ids=str)
def test_a_program_is_whole_or_says_why_not(snippet: Snippet) -> None:
    lacking = undefined(snippet.code)
    if snippet.marker:
        assert lacking, f"{snippet} is whole: take the mark away"
    else:
        assert not lacking, f"{snippet}: define them, or mark it"


def command_lines(code: str) -> Iterator[list[str]]:
    """Yield the words of each call of `quorate` in a console."""
    for line in re.findall(r"^\$ ((?:.*\\\n)*.*)$", code, re.M):
        words = shlex.split(line.replace("\\\n", ""), comments=True)
        if words[:1] == ["quorate"]:
            yield words[1 : words.index(">") if ">" in words else None]


LINES = [
    pytest.param(words, id=f"{snippet}-{' '.join(words[:2])}")
    for snippet in SNIPPETS
    for words in command_lines(snippet.code)
]


@pytest.mark.parametrize("words", LINES)
def test_a_command_line_is_one_that_the_command_takes(words: list[str]) -> None:
    name, *arguments = words
    assert name in COMMANDS
    command = load(name)
    with command.make_context(name, list(arguments)) as context:
        # A group of commands, such as `quorate store`, has the rest of the line.
        rest = [*context._protected_args, *context.args]
        if rest:
            _, inner, rest = command.resolve_command(context, rest)
            inner.make_context(inner.name, rest, parent=context).close()


def test_undefined_names_and_command_lines_are_found() -> None:
    assert undefined("import os\n\ndef f(a):\n    b = a\n    save(b, os, len)\n") == {"save"}
    assert undefined("x = await y\n") == {"y"}
    assert undefined("        x = y\n    return x\n") == {"y"}
    console = "$ quorate send a \\\n    -f b > c # d\nout\n$ ls\n$ quorate status\n"
    assert list(command_lines(console)) == [["send", "a", "-f", "b"], ["status"]]
