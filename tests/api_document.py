"""docs/api.md, made from the docstrings of what applications import.

    python -m tests.api_document

writes it anew, and so does `make docs`; a test compares it with what is there. A name is in the
document because an application may import it from the modules in SECTIONS. A method without a
docstring is left out; a field is not.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import importlib
import inspect
import re
import sys
import textwrap
import types
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Union, get_args, get_origin

from quorate.client import PublishStore
from quorate.protocol.errors import Outcome, QuorateError

PATH = Path(__file__).parents[1] / "docs" / "api.md"
WIDTH = 96
"""The length of a signature that stays on one line."""
INTERNAL = "Applications use"
"""A constructor whose docstring has these words, or that has none, is none for applications."""
ELSEWHERE = {
    "FilePublishStore": vars(PublishStore).keys(),
    "Policy": {"blocks", "is_variant_of", "stand_ins"},
}
"""Methods that an application does not call. The source calls those of a publish store, which are
shown once, at PublishStore. Those of a policy are rules for sources, receivers and stores."""
ITERATIONS = {"__aiter__": "async for", "__iter__": "for"}
HEAD = """\
# The Python interface

Everything that an application imports, with its types and defaults. `make docs` makes this page
from the docstrings. [receiving.md](receiving.md), [events.md](events.md) and
[policies.md](policies.md) explain how the parts work together.
"""


class Section(NamedTuple):
    """A part of the document: names of one module, in this order."""

    title: str
    module: str
    names: tuple[str, ...] = ()
    """The names to show. Empty: all that the module exports and no other section shows."""
    intro: str = ""


SECTIONS = (
    Section("The client", "quorate.client", ("connect", "Client", "Tls")),
    Section("Sources", "quorate.client", ("Source", "SourceOptions", "FlightBehaviour",
        "WithoutQuorum", "StabilityEvents", "ReceiverPacing", "Delays", "Outgoing",
        "UnstableMessage", "Receipt", "Durability")),
    Section("Publish stores", "quorate.client",
        ("PublishStore", "MemoryPublishStore", "FilePublishStore")),
    Section("Receivers", "quorate.client", ("Receiver", "ReceiverOptions", "Delivery",
        "PayloadFormat", "AcknowledgeMode", "ConfirmDelivery", "Message", "DeliveredBatch",
        "MessageHandle", "Start", "StartingPoint", "Behaviour")),
    Section("Subscribers", "quorate.client", ("Subscriber",)),
    Section("The state of the world", "quorate.client", ("State", "Rows")),
    Section("Replays", "quorate.client.replay"),
    Section("Queues", "quorate.client", ("Consumer", "Job", "Settling")),
    Section("Stores and policies", "quorate.client", ("StoreAddress", "SourceName", "Layout",
        "StoreGroup", "Policy", "Group", "IntragroupRule", "IntergroupRule")),
    Section("Without asyncio", "quorate.client", ("connect_blocking",),
        "`Client`, `Source`, `Receiver`, `Subscriber`, `State` and `Consumer` of "
        "`quorate.client.blocking` have the methods above, without `await`. A source or a receiver "
        "is open when the call returns."),
    Section("A store inside an application", "quorate.store.embedded",
            ("serve", "BatchCheck", "OfferedBatch", "OfferedMessage")),
    Section("Events of a source", "quorate.client.source_events"),
    Section("Events of a receiver", "quorate.client.receiver_events"),
    Section("Errors", "quorate.errors", ("QuorateError", "Outcome")),
    Section("Kinds of errors", "quorate.errors", (),
        "Fields are facts for programs; `str(error)` says what happened, why, and what to do next. "
        "`retryable`: the same call may succeed later. `outcome`: whether the call may have taken "
        "effect."),
)  # fmt: skip


def document() -> str:
    """Return the text of docs/api.md."""
    body = "\n".join(part for section in SECTIONS for part in _section(section))
    return f"{HEAD}\n{_contents(body)}\n\n{body}".rstrip() + "\n"


def exported(section: Section) -> list[str]:
    """Return the names that a section shows."""
    if section.names:
        return list(section.names)
    taken = {name for other in SECTIONS if other.module == section.module for name in other.names}
    module = importlib.import_module(section.module)
    return [name for name in sorted(module.__all__) if name not in taken]


def _contents(body: str) -> str:
    """Return a list of the headings of two levels, with the anchors that GitHub gives them."""
    seen: Counter[str] = Counter()
    lines = list[str]()
    for level, words in re.findall(r"^(##+) (.*)$", body, re.M):
        anchor = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        link = f"[{words}](#{anchor}{f'-{seen[anchor]}' if seen[anchor] else ''})"
        seen[anchor] += 1
        if level == "##":
            lines.append(f"* {link}:")
        elif level == "###" and "[Events" not in lines[-1]:
            lines[-1] += f" {link},"
    return "\n".join(
        textwrap.fill(
            line.rstrip(",:"), 118, subsequent_indent="  ", break_long_words=False,
            break_on_hyphens=False,
        )
        for line in lines
    )  # fmt: skip


def _section(section: Section) -> Iterator[str]:
    yield f"## {section.title}\n"
    yield f"From `{section.module}`. {section.intro}".rstrip() + "\n"
    module = importlib.import_module(section.module)
    names = exported(section)
    values = {name: getattr(module, name) for name in names}
    if not section.names and QuorateError in inspect.getmro(next(iter(values.values()))):
        yield from _errors(values)
        return
    for name, value in values.items():
        yield f"### {name}\n"
        yield from entry(name, value)


def entry(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield from _class(name, value)
    elif inspect.isfunction(value):
        yield _code(_signature(name, value))
        yield _text(value)
    elif dataclasses.is_dataclass(value):
        yield f"{inspect.getdoc(type(value))} Also as the text `{str(value)!r}`.\n"
    elif get_origin(value) in (Union, types.UnionType):
        yield f"Any of the {len(get_args(value))} classes of this section.\n"
    else:
        raise TypeError(f"{name} is neither a class, a function nor a union of classes")


def _class(name: str, cls: type) -> Iterator[str]:
    constructor = vars(cls).get("__init__")
    words = getattr(constructor, "__doc__", None) or INTERNAL
    is_called = inspect.isfunction(constructor) and INTERNAL not in words
    if is_called:
        yield _code(_signature(name, cls.__init__, is_constructor=True))  # type: ignore[misc]
    yield _text(cls)
    if is_called:
        yield _text(constructor)
    values = [*_attributes(cls), *_properties(cls)]
    items = [f"* `{value}`" + (f": {words}" if words else "") for value, words in values]
    if items:
        yield "\n".join(items) + "\n"
    for member, value in _members(cls):
        if member in ELSEWHERE.get(name, ()):
            continue
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if member in ITERATIONS:
            yield f"#### {ITERATIONS[member]} … in {name}\n"
        else:
            yield f"#### {name}.{member}\n"
            owner = f"{name}." if isinstance(value, classmethod | staticmethod) else ""
            yield _code(_signature(owner + member, function))
        yield _text(function)


def _is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in ("quorate", "tests")


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods that have a docstring, in the order of the code."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if _is_ours(base):
            found.update(vars(base))
    for name, value in found.items():
        public = name in ITERATIONS or not name.startswith("_")
        is_method = isinstance(value, classmethod | staticmethod | types.FunctionType)
        if public and is_method and value.__doc__:
            yield name, value


def _properties(cls: type) -> Iterator[tuple[str, str]]:
    """Yield each public property with its type, and its docstring on one line."""
    for name, value in inspect.getmembers_static(cls, lambda each: isinstance(each, property)):
        if not name.startswith("_") and value.__doc__:
            returned = inspect.signature(value.fget).return_annotation
            yield f"{name}: {returned}", " ".join(value.__doc__.split())


def _attributes(cls: type) -> Iterator[tuple[str, str]]:
    """Yield each public attribute as the code declares it, and its docstring on one line."""
    for base in reversed(cls.__mro__):
        if not _is_ours(base):
            continue
        source = textwrap.dedent(inspect.getsource(base))
        (tree,) = ast.parse(source).body
        assert isinstance(tree, ast.ClassDef)
        for place, node in enumerate(tree.body):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                name, declared = node.target.id, _declaration(source, node, base)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                declared = ast.get_source_segment(source, node) or name
            else:
                continue
            words = _docstring_behind(tree.body, place)
            is_value = isinstance(node, ast.AnnAssign) or issubclass(cls, enum.Enum)
            if not name.startswith("_") and (words or is_value):
                yield declared, words


def _declaration(source: str, node: ast.AnnAssign, cls: type) -> str:
    """Return a field as the code declares it; a constant is replaced by its value."""
    declared = f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}"
    if node.value is None:
        return declared
    value = ast.get_source_segment(source, node.value) or ""
    if made := re.match(r"field\(.*default_factory=(\w+)", value):
        value = f"{made[1]}()"
    elif value.startswith("field("):
        return declared
    if re.fullmatch(r"[A-Z_]+", value):
        constant = getattr(importlib.import_module(cls.__module__), value)
        value = format(constant, "_") if isinstance(constant, int) else repr(constant)
    return f"{declared} = {value}"


def _docstring_behind(body: list[ast.stmt], place: int) -> str:
    if place + 1 == len(body):
        return ""
    following = body[place + 1]
    if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
        return " ".join(str(following.value.value).split())
    return ""


def _errors(errors: dict[str, Any]) -> Iterator[str]:
    yield "| error | fields | retryable | outcome unknown | |"
    yield "|---|---|---|---|---|"
    for name, error in errors.items():
        fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(error)) or "–"
        again = "yes" if error.retryable else "–"
        unknown = "yes" if error.outcome is Outcome.UNKNOWN else "–"
        words = " ".join((error.__doc__ or "").split())
        yield f"| `{name}` | {fields} | {again} | {unknown} | {words} |"
    yield ""


def _signature(name: str, function: Callable[..., Any], *, is_constructor: bool = False) -> str:
    signature = inspect.signature(function)
    parameters = [
        each for each in signature.parameters.values() if each.name not in ("self", "cls")
    ]
    written = list[str]()
    starred = False
    for each in parameters:
        if each.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            written.append("*")
            starred = True
        starred = starred or each.kind is inspect.Parameter.VAR_POSITIONAL
        written.append(_parameter(each))
    keyword = "async def " if inspect.iscoroutinefunction(function) else "def "
    returned = "" if is_constructor else f" -> {signature.return_annotation}"
    head = "" if is_constructor else keyword
    line = f"{head}{name}({', '.join(written)}){returned}"
    if len(line) <= WIDTH:
        return line
    lines = "".join(f"    {each},\n" for each in written)
    return f"{head}{name}(\n{lines}){returned}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else ""
    written = f"{stars}{parameter.name}: {parameter.annotation}"
    match parameter.default:
        case inspect.Parameter.empty:
            return written
        case enum.Enum() as value:
            return f"{written} = {type(value).__name__}.{value.name}"
        case value:
            return f"{written} = {value!r}"


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n"


def _text(value: Any) -> str:
    """Return a docstring as Markdown: its indented examples become blocks of code."""
    words = inspect.cleandoc(value.__doc__ or "")
    parts = list[str]()
    for part in re.split(r"\n\n", words):
        is_code = all(line.startswith("    ") for line in part.splitlines())
        parts.append(_code(textwrap.dedent(part)).rstrip() if part and is_code else part)
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Write the document."""
    PATH.write_text(document())
    print(f"{PATH} has {len(document().splitlines())} lines", file=sys.stderr)


if __name__ == "__main__":
    main()
