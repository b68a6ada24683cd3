"""Options from a file: read for the dataclass that has them, and joined with those of code.

The reader of a section collects every problem, each with the path of its key. The dataclass
says what an option means, and checks its value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Generic, TypeVar, get_type_hints

from quorate.protocol.choices import WORDS, RemembersGiven, did_you_mean, kinds_in, named_in
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.patterns import TopicPattern, topic_pattern

Options = TypeVar("Options", bound=RemembersGiven)


@dataclass(frozen=True, slots=True)
class FileOptions(Generic[Options]):
    """The options of a file's section: those for all topics, and those for some."""

    kind: type[Options]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    topics: tuple[tuple[TopicPattern, Mapping[str, Any]], ...] = ()
    """Options for the topics that a pattern matches; the first entry that matches counts."""

    def of(self, topic: str | None, code: Options | None, **shared: Any) -> Options:
        """Return the options for a topic. None: for a pattern of topics.

        Those named in code win over the shared ones, these over the topic's, these over the
        section's. Raises InvalidArgument.
        """
        of_topic: Mapping[str, Any] = {}
        if topic is not None:
            matching = (values for pattern, values in self.topics if pattern.matches(topic))
            of_topic = next(matching, of_topic)
        given = named_in(code) if code is not None else {}
        return self.kind(**{**self.defaults, **of_topic, **shared, **given})


def read_section(
    kind: type[Options], section: Any, path: str, problems: list[str]
) -> FileOptions[Options]:
    """Return the options of a section, [path] and [[path.topic]]. Add every problem to the list."""
    if not isinstance(section, Mapping):
        problems.append(f"{path}: is not a table; write [{path}]")
        return FileOptions(kind)
    found: list[str] = []
    defaults = _read_table(
        kind, {key: value for key, value in section.items() if key != "topic"}, path, found
    )
    _check(kind, defaults, {}, path, found)
    entries = section.get("topic", [])
    if not isinstance(entries, list) or not all(isinstance(each, Mapping) for each in entries):
        found.append(f"{path}.topic: is not a list of tables; write [[{path}.topic]]")
        entries = []
    # Options of a topic are checked together with the defaults, so these must be right.
    base = {} if found else defaults
    topics = [
        _read_topic(kind, entry, base, f"{path}.topic.{number}", found)
        for number, entry in enumerate(entries)
    ]
    problems += found
    return FileOptions(kind, defaults, tuple(topic for topic in topics if topic is not None))


def _read_topic(
    kind: type[Options],
    entry: Mapping[str, Any],
    defaults: Mapping[str, Any],
    path: str,
    problems: list[str],
) -> tuple[TopicPattern, Mapping[str, Any]] | None:
    values = _read_table(
        kind, {key: value for key, value in entry.items() if key != "pattern"}, path, problems
    )
    _check(kind, values, defaults, path, problems)
    pattern = entry.get("pattern")
    if not isinstance(pattern, str):
        problems.append(f"{path}.pattern: must be given, as text")
        return None
    try:
        return topic_pattern(pattern), values
    except InvalidArgument as error:
        problems.append(f"{path}.pattern: {error.detail}")
        return None


_WRONG = object()


def _read_table(
    kind: type[Any], table: Mapping[str, Any], path: str, problems: list[str]
) -> dict[str, Any]:
    """Return the values of a table that have the types of the dataclass's fields."""
    types = {name: _types(hint) for name, hint in get_type_hints(kind).items()}
    known = tuple(each.name for each in fields(kind) if types[each.name])
    values: dict[str, Any] = {}
    for key, value in table.items():
        where = f"{path}.{key}"
        if key in known:
            values[key] = _read_value(types[key], value, where, problems)
        elif key in types and not key.startswith("_"):
            problems.append(f"{where}: is a function; give it in code")
        else:
            problems.append(f"{where}: unknown{did_you_mean(key, known)}")
    return {key: value for key, value in values.items() if value is not _WRONG}


def _types(hint: Any) -> tuple[Any, ...]:
    """Return the types of values that a file can give for an option."""
    return tuple(kind for kind in kinds_in(hint) if kind in WORDS or is_dataclass(kind))


def _read_value(kinds: Sequence[Any], value: Any, where: str, problems: list[str]) -> Any:
    for kind in kinds:
        if kind not in WORDS and isinstance(value, Mapping):
            made = _check(kind, _read_table(kind, value, where, problems), {}, where, problems)
            return _WRONG if made is None else made
        if kind is float and type(value) in (int, float):
            return float(value)
        if type(value) is kind:
            return value
    wanted = " or ".join(WORDS.get(kind, "a table") for kind in kinds)
    problems.append(f"{where}: {value!r} is not {wanted}")
    return _WRONG


def _check(
    kind: Any, values: Mapping[str, Any], others: Mapping[str, Any], path: str, problems: list[str]
) -> Any:
    """Return the dataclass with these values and others that are right; None: add the problems."""
    left = dict(values)
    wrong = False
    while True:
        try:
            made = kind(**{**others, **left})
        except InvalidArgument as error:
            wrong = True
            key = error.argument.rpartition(".")[2]
            problems.append(f"{path}.{key}: {error.detail}")
            if left.pop(key, None) is None:
                return None
        else:
            return None if wrong else made
