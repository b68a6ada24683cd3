"""The rule for the project's English, as far as a program can check it.

Text comes from docstrings, comments and strings of the code, from the wire contract's comments and
from the documents. `python -m tests.english [PATH …]` lists what breaks the rule, place by place.
How many breaches each package may still have is in test_english.py.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

WORDS_MAX = 25
"""The number of words that one sentence may have."""

_OPENINGS = re.compile(
    r"(Have|Be|Who|Whom|Whose|Whoever|Whomever|What|Whatever|That|Of|Those|The same|As it)\b(?!-)"
)
"""No docstring begins with one of these."""

_SUBJECTS = re.compile(
    r"(Who|Whom|Whose|Whoever|Whomever|What|Whatever|Of that|Of those)\b(?![^.]*\?)"
)
"""No sentence does, unless it asks."""

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”)\]*_]*\s+(?=[\"'“(\[*_`…]*[A-Z0-9`{…])")
_WORD = re.compile(r"[^\W_][\w'’.,/:@%+-]*|`[^`]*`")
_LINKS = re.compile(r"\[[^\]]*\](?:, \[[^\]]*\])+")
"""An index: links with commas between them. It counts as one word."""
_CAN_NOT = re.compile(r"\bcan\s+not\b", re.IGNORECASE)


class Text(NamedTuple):
    """A stretch of prose, and where it stands."""

    path: Path
    line: int
    words: str
    is_docstring: bool = False


class Breach(NamedTuple):
    """A place that breaks the rule."""

    path: Path
    line: int
    rule: str
    words: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.words}"


def breaches(path: Path) -> list[Breach]:
    """Every breach of the rule in this file."""
    return [breach for text in _texts(path) for breach in _judged(text)]


def _judged(text: Text) -> Iterator[Breach]:
    prose = " ".join(text.words.split())
    if text.is_docstring and (opening := _OPENINGS.match(prose)):
        yield Breach(text.path, text.line, f"opens with {opening[1]}", prose[:70])
    for found in _CAN_NOT.finditer(prose):
        around = prose[max(0, found.start() - 30) : found.end() + 30]
        yield Breach(text.path, text.line, "can not", around)
    for paragraph in _paragraphs(text.words):
        for number, sentence in enumerate(_SENTENCE_END.split(paragraph)):
            counted = _LINKS.sub("index", re.sub(r"`[^`]*`", "code", sentence))
            words = len(_WORD.findall(counted))
            if words > WORDS_MAX:
                yield Breach(text.path, text.line, f"{words} words", sentence)
            is_first_of_docstring = text.is_docstring and not number
            if not is_first_of_docstring and (subject := _SUBJECTS.match(sentence)):
                yield Breach(text.path, text.line, f"begins with {subject[1]}", sentence[:70])


def _paragraphs(text: str) -> Iterator[str]:
    """The paragraphs and the items of lists; no code, and no drawing."""
    text = re.sub(r"```.*?(```|\Z)", "", text, flags=re.DOTALL)
    for block in re.split(r"\n\s*\n", text):
        for item in re.split(r"\n(?=\s*(?:[-*•] |\d+\. ))", block):
            if item.strip() and not re.search(r"[│─┌└▼▲]", item):
                yield re.sub(r"^(?:[-*•] |\d+\. )", "", " ".join(item.split()))


def _texts(path: Path) -> Iterable[Text]:
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return (*_strings(path, source), *_comments(path, source, "#"))
    if path.suffix == ".proto":
        return _comments(path, source, "//")
    return _document(path, source)


def _document(path: Path, source: str) -> Iterator[Text]:
    """A Markdown document: its tables cell by cell, all else by paragraph."""
    source = re.sub(r"```.*?(```|\Z)", _blanked, source, flags=re.DOTALL)
    source = re.sub(r"\]\([^)]*\)", "]", source)
    start, block = 1, list[str]()
    for number, line in enumerate([*source.split("\n"), ""], 1):
        is_row, is_item = line.lstrip().startswith("|"), re.match(r"\s*([-*] |\d+\. |#|>)", line)
        if not line.strip() or is_row or is_item:
            if block:
                yield Text(path, start, "\n".join(block))
            block, start = [], number
        if is_row:
            for cell in line.strip().strip("|").split("|"):
                yield Text(path, number, cell)
        elif line.strip():
            block.append(re.sub(r"^\s*(?:[-*] |\d+\. |#+ |> )", "", line))
            start = start if len(block) > 1 else number


def _blanked(code: re.Match[str]) -> str:
    return "\n" * code[0].count("\n")


def _strings(path: Path, source: str) -> Iterator[Text]:
    tree = ast.parse(source)
    documenting = {id(node) for node in _docstrings(tree)}
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in ast.walk(node) if part is not node}
            if id(node) not in inside:
                yield Text(path, node.lineno, _joined(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in documenting:
                yield Text(path, node.lineno, node.value, is_docstring=True)
            elif id(node) not in inside and " " in node.value:
                yield Text(path, node.lineno, node.value)


def _joined(node: ast.JoinedStr) -> str:
    """An f-string with one word in place of each value."""
    return "".join(
        part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "X"
        for part in node.values
    )


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the docstrings of modules, classes and functions, and those behind an attribute."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for place, statement in enumerate(body):
            if (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
                and (place == 0 or isinstance(body[place - 1], ast.Assign | ast.AnnAssign))
            ):
                yield statement.value


def _comments(path: Path, source: str, mark: str) -> Iterator[Text]:
    """Comments on lines that follow each other are one text."""
    start, lines, last = 0, list[str](), -1
    for line, comment in _comment_lines(source, mark):
        if line != last + 1 and lines:
            yield Text(path, start, "\n".join(lines))
            lines = []
        start = start if lines else line
        lines.append(comment)
        last = line
    if lines:
        yield Text(path, start, "\n".join(lines))


def _comment_lines(source: str, mark: str) -> Iterator[tuple[int, str]]:
    if mark == "#":
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT and not re.match(r"#( noqa| type:|!)", token.string):
                yield token.start[0], token.string.lstrip("# ")
        return
    for number, line in enumerate(source.split("\n"), 1):
        if mark in line:
            yield number, line.split(mark, 1)[1].strip()


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """Every file below these paths whose text people read; generated code is left out."""
    for path in paths:
        each = [path] if path.is_file() else sorted(path.rglob("*"))
        yield from (
            one
            for one in each
            if one.suffix in {".py", ".proto", ".md"} and "_pb2" not in one.name and one.is_file()
        )


def main() -> None:
    """Print every breach in the files that are named, in all of the project's without any."""
    named = [Path(argument) for argument in sys.argv[1:]]
    known = [*(ROOT / name for name in PLACES)]
    count = 0
    for path in files(named or known):
        for breach in breaches(path):
            print(breach)
            count += 1
    print(f"{count} breaches")


PLACES = (
    "proto", "store", "source", "receiver", "subscriber", "client", "queue", "pipeline", "console",
    "bench", "tools", "docs", "README.md", "CHANGELOG.md",
)  # fmt: skip
"""Where the project's text is."""


if __name__ == "__main__":
    main()
