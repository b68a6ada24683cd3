"""The parsed form of a filter: a tree of values.

What the nodes mean is in quorate.protocol.filters.evaluate; how text becomes nodes, in parse.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class About(enum.Enum):
    """The facts of a message besides its payload."""

    TOPIC = "topic"
    SESSION = "session"
    SEQUENCE = "sequence"
    EPOCH = "epoch"
    TIME = "time"
    """Seconds since 1970 UTC, with a fraction."""
    SIZE = "size"
    """Bytes of the payload."""
    KEY = "key"
    DELETED = "deleted"
    """Whether it deletes the row of its key."""
    EXPIRES = "expires"
    """Seconds since 1970 UTC, with a fraction; NULL: it does not expire."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a text, TRUE, FALSE or NULL."""

    value: float | str | bool | None


@dataclass(frozen=True, slots=True)
class Field:
    """A place in the payload: names of objects' fields, and indexes of arrays."""

    path: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class MessageField:
    """`$topic`, `$key` and so on."""

    about: About


@dataclass(frozen=True, slots=True)
class Property:
    """`$properties.name`."""

    name: str


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Two numbers and an operator between them: + - * / %."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Negative:
    """The number with the other sign."""

    value: Node


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two values and an operator between them: = != < <= > >=."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Between:
    """Whether a value lies between two others, both included."""

    value: Node
    low: Node
    high: Node


@dataclass(frozen=True, slots=True)
class OneOf:
    """Whether a value equals one of several: IN."""

    value: Node
    options: tuple[Node, ...]


class Affix(enum.Enum):
    """The end of a text."""

    BEGINS = "BEGINS WITH"
    ENDS = "ENDS WITH"


@dataclass(frozen=True, slots=True)
class HasAffix:
    """Whether a text begins, or ends, with one of several."""

    affix: Affix
    value: Node
    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """Whether a text fits a pattern of SQL: `%` for any characters, `_` for one."""

    value: Node
    pattern: str
    escape: str | None


@dataclass(frozen=True, slots=True)
class Matches:
    """Whether a regular expression of RE2 is found in a text."""

    value: Node
    pattern: str


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a value is NULL. The answer is never NULL itself."""

    value: Node


@dataclass(frozen=True, slots=True)
class IsNan:
    """Whether a value is no number, as JSON may name one: NaN. The answer is never NULL."""

    value: Node


@dataclass(frozen=True, slots=True)
class Replaced:
    """A text in which each match of a regular expression of RE2 is another text."""

    value: Node
    pattern: str
    new: str


@dataclass(frozen=True, slots=True)
class Not:
    """The other truth."""

    value: Node


@dataclass(frozen=True, slots=True)
class AllOf:
    """Whether all are true: AND."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Whether at least one is true: OR."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function, its name in capitals, and its arguments."""

    name: str
    arguments: tuple[Node, ...]


Node = (
    Literal
    | Field
    | MessageField
    | Property
    | Arithmetic
    | Negative
    | Comparison
    | Between
    | OneOf
    | HasAffix
    | Like
    | Matches
    | IsNull
    | IsNan
    | Replaced
    | Not
    | AllOf
    | AnyOf
    | Call
)
"""Any part of a filter."""
