"""The parser of filters and of lists of fields: text in, tree out.

The grammar is in filter.lark. A text is bounded in length and depth, because it may come from
anybody. The meaning of the tree is not known here.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import lark

from quorate.protocol.errors import InvalidArgument, InvalidFilter
from quorate.protocol.filters import syntax
from quorate.protocol.filters.functions import FUNCTIONS, NOT_SUPPORTED, OF_PATTERNS
from quorate.protocol.filters.syntax import About, Affix, Node

LENGTH_MAX = 16_384
"""Characters of the longest filter."""
DEPTH_MAX = 100
"""How deep parentheses, functions and operators may be nested."""

_EXPECTED = {
    "NAME": "a field",
    "QUOTED": "a field",
    "NUMBER": "a number",
    "STRING": "a text in single quotes",
    "LPAR": "(",
    "RPAR": ")",
    "COMMA": ",",
    "COMPARISON": "a comparison such as =",
    "SIGN": "+ or -",
    "MINUS": "-",
    "TIMES": "* or /",
    "INDEX": "an index",
    "RSQB": "]",
    "LSQB": "[",
    "DOT": ".",
    "DOLLAR": "$",
    "$END": "the end",
}


class Named(NamedTuple):
    """A field in a list of fields."""

    is_left_out: bool
    """Whether a - is before it."""
    path: tuple[str | int, ...]
    """Names of objects' fields, and indexes of arrays."""


def parse(text: str) -> Node:
    """Return the tree of a filter.

    Raises InvalidFilter, which says where, and what was expected there.
    """
    return _Reader().read(_tree(text, "start"))


def parse_fields(text: str) -> list[Named]:
    """Return the fields that a text names, with commas between them.

    Raises InvalidFilter, as `parse` does.
    """
    return [
        Named(sign is not None, _path_of(path.children))
        for sign, path in (named.children for named in _tree(text, "fields").children)
    ]


def read_fields(option: str, given: str | Sequence[str], example: str) -> list[Named]:
    """Return the fields that an application named: in one text, or in each text of a list.

    - option: its name, for errors.
    - example: tells in errors what to give.

    Raises InvalidArgument.
    """
    texts: Sequence[object] = [given] if isinstance(given, str) else given
    if not isinstance(texts, Sequence) or not texts:
        raise InvalidArgument(option, f"{given!r} names no field; {example}")
    named: list[Named] = []
    for text in texts:
        if not isinstance(text, str):
            raise InvalidArgument(option, f"{text!r} is no text; {example}")
        try:
            named += parse_fields(text)
        except InvalidFilter as error:
            raise InvalidArgument(
                option,
                f"{text[:80]!r} cannot be read after {error.position} characters: {error.detail}",
            ) from None
    return named


def _tree(text: str, start: str) -> Any:
    if len(text) > LENGTH_MAX:
        raise InvalidFilter(
            LENGTH_MAX, f"it has {len(text):,} characters; {LENGTH_MAX:,} are the most"
        )
    try:
        return _parser().parse(text, start=start)
    except lark.exceptions.UnexpectedCharacters as error:
        at = error.pos_in_stream or 0
        raise InvalidFilter(at, _instead(repr(text[at]), error.allowed)) from None
    except lark.exceptions.UnexpectedToken as error:
        is_end = error.token.type == "$END"
        found = "the end" if is_end else repr(str(error.token))
        at = len(text) if is_end else error.token.start_pos or 0
        raise InvalidFilter(at, _instead(found, error.accepts)) from None


@functools.cache
def _parser() -> lark.Lark:
    return lark.Lark.open(
        "filter.lark",
        rel_to=__file__,
        parser="lalr",
        start=["start", "fields"],
        propagate_positions=True,
    )


def _instead(found: str, expected: set[str] | None) -> str:
    names = sorted({_EXPECTED.get(each, each) for each in expected or ()})
    wanted = f"expected {', '.join(names)}" if names else "it fits nowhere"
    return f"{found} was not expected here; {wanted}"


class _Reader:
    """Makes nodes of the parser's tree, and counts how deep it is."""

    def __init__(self) -> None:
        self._depth = 0

    def read(self, tree: Any) -> Node:
        """Return the node of a tree of the parser."""
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise InvalidFilter(_position(tree), f"it is nested deeper than {DEPTH_MAX} levels")
        node: Node = getattr(self, f"_{tree.data}")(*tree.children)
        self._depth -= 1
        return node

    def _all(self, trees: Any) -> tuple[Node, ...]:
        return tuple(self.read(each) for each in trees)

    def _any_of(self, *parts: Any) -> Node:
        return syntax.AnyOf(self._all(parts))

    def _all_of(self, *parts: Any) -> Node:
        return syntax.AllOf(self._all(parts))

    def _not_(self, value: Any) -> Node:
        return syntax.Not(self.read(value))

    def _comparison(self, left: Any, operator: Any, right: Any) -> Node:
        name = {"<>": "!=", "==": "="}.get(operator, str(operator))
        return syntax.Comparison(name, self.read(left), self.read(right))

    def _between(self, value: Any, negated: Any, low: Any, high: Any) -> Node:
        node = syntax.Between(self.read(value), self.read(low), self.read(high))
        return syntax.Not(node) if negated else node

    def _one_of(self, value: Any, negated: Any, options: Any) -> Node:
        node = syntax.OneOf(self.read(value), self._all(options.children))
        return syntax.Not(node) if negated else node

    def _like(self, value: Any, negated: Any, pattern: Any, escape: Any) -> Node:
        escaping = None if escape is None else _unquoted(escape)
        if escaping is not None and len(escaping) != 1:
            raise InvalidFilter(escape.start_pos, "ESCAPE takes one character")
        node = syntax.Like(self.read(value), _unquoted(pattern), escaping)
        return syntax.Not(node) if negated else node

    def _matches(self, value: Any, negated: Any, pattern: Any) -> Node:
        node = syntax.Matches(self.read(value), _unquoted(pattern))
        return syntax.Not(node) if negated else node

    def _begins(self, value: Any, negated: Any, options: Any) -> Node:
        return self._has_affix(Affix.BEGINS, value, negated, options)

    def _ends(self, value: Any, negated: Any, options: Any) -> Node:
        return self._has_affix(Affix.ENDS, value, negated, options)

    def _has_affix(self, affix: Affix, value: Any, negated: Any, affixes: Any) -> Node:
        (given,) = affixes.children
        if isinstance(given, lark.Token):
            options: tuple[Node, ...] = (syntax.Literal(_unquoted(given)),)
        else:
            options = self._all(given.children)
        node = syntax.HasAffix(affix, self.read(value), options)
        return syntax.Not(node) if negated else node

    def _is_null(self, value: Any, negated: Any) -> Node:
        node = syntax.IsNull(self.read(value))
        return syntax.Not(node) if negated else node

    def _is_nan(self, value: Any, negated: Any) -> Node:
        node = syntax.IsNan(self.read(value))
        return syntax.Not(node) if negated else node

    def _arithmetic(self, left: Any, operator: Any, right: Any) -> Node:
        name = "%" if operator.upper() == "MOD" else str(operator)
        return syntax.Arithmetic(name, self.read(left), self.read(right))

    def _signed(self, sign: Any, value: Any) -> Node:
        node = self.read(value)
        return syntax.Negative(node) if sign == "-" else node

    def _number(self, text: Any) -> Node:
        return syntax.Literal(int(text) if text.isdigit() else float(text))

    def _string(self, text: Any) -> Node:
        return syntax.Literal(_unquoted(text))

    def _true(self) -> Node:
        return syntax.Literal(True)

    def _false(self) -> Node:
        return syntax.Literal(False)

    def _null(self) -> Node:
        return syntax.Literal(None)

    def _path(self, *steps: Any) -> Node:
        return syntax.Field(_path_of(steps))

    def _message_field(self, name: Any, part: Any = None) -> Node:
        asked = name.lower()
        if asked == "properties" and part is not None:
            return syntax.Property(_name(part))
        if part is None and asked in _ABOUT:
            return syntax.MessageField(_ABOUT[asked])
        whole = f"${name}" if part is None else f"${name}.{part}"
        known = ", ".join([*(f"${each}" for each in _ABOUT), "$properties.NAME"])
        raise InvalidFilter(name.start_pos - 1, f"a message has no {whole}; it has {known}")

    def _call(self, name: Any, arguments: Any) -> Node:
        asked = name.upper()
        if asked in NOT_SUPPORTED:
            why = NOT_SUPPORTED[asked]
            raise InvalidFilter(name.start_pos, f"the function {asked} is not supported: {why}")
        if asked in OF_PATTERNS:
            return self._of_pattern(name, arguments)
        function = FUNCTIONS.get(asked)
        if function is None:
            known = ", ".join(sorted({*FUNCTIONS, *OF_PATTERNS}))
            raise InvalidFilter(name.start_pos, f"there is no function {asked}; there are {known}")
        given = self._all(arguments.children) if arguments is not None else ()
        if not function.takes(len(given)):
            raise InvalidFilter(
                name.start_pos, f"{asked} takes {function.arity}, not {len(given)} arguments"
            )
        return syntax.Call(asked, given)

    def _of_pattern(self, name: Any, arguments: Any) -> Node:
        asked = name.upper()
        given = self._all(arguments.children) if arguments is not None else ()
        if len(given) != OF_PATTERNS[asked]:
            raise InvalidFilter(
                name.start_pos, f"{asked} takes {OF_PATTERNS[asked]}, not {len(given)} arguments"
            )
        value, *texts = given
        match [each.value for each in texts if isinstance(each, syntax.Literal)]:
            case [str(pattern)] if asked == "REGEXP_MATCH":
                return syntax.Matches(value, pattern)
            case [str(pattern), str(new)]:
                return syntax.Replaced(value, pattern, new)
        raise InvalidFilter(
            name.start_pos, f"all arguments of {asked} but the first are texts in single quotes"
        )


_ABOUT = {each.value: each for each in About}


def _position(tree: Any) -> int:
    start: int | None = getattr(tree.meta, "start_pos", None)
    return start or 0


def _unquoted(text: Any) -> str:
    return str(text[1:-1]).replace("''", "'")


def _path_of(steps: Any) -> tuple[str | int, ...]:
    return tuple(int(step) if step.type == "INDEX" else _name(step) for step in steps)


def _name(step: Any) -> str:
    return str(step) if step.type == "NAME" else str(step[1:-1]).replace('""', '"')
