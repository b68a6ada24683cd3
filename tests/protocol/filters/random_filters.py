"""Random filters, as text that both Quorate and SQLite read, and the rows that they are about."""

from __future__ import annotations

import random

NUMBERS = ("a", "b", "c")
"""Fields with whole numbers or NULL."""
REALS = ("x", "y")
TEXTS = ("s", "t")
_WORDS = ("", "a", "ab", "abc", "B", "b%", "_", "Zürich", "it''s", " a ")


def random_row(choice: random.Random) -> dict[str, float | str | None]:
    """Return a document with some fields NULL."""
    row: dict[str, float | str | None] = {}
    for name in NUMBERS:
        row[name] = choice.choice((None, 0, 1, -1, 2, 7, -13, 100))
    for name in REALS:
        row[name] = choice.choice((None, 0.0, 0.5, -2.25, 1e9))
    for name in TEXTS:
        row[name] = choice.choice((None, *(word.replace("''", "'") for word in _WORDS)))
    return row


class Writer:
    """Writes one filter."""

    def __init__(self, choice: random.Random) -> None:
        self._choice = choice

    def condition(self, depth: int) -> str:
        kinds = [self._comparison, self._test_of_text, self._is_null]
        if depth:
            kinds += [self._not, self._joined, self._joined]
        return self._choice.choice(kinds)(max(0, depth - 1))

    def _joined(self, depth: int) -> str:
        word = self._choice.choice((" AND ", " OR ", " and "))
        parts = (self.condition(depth) for _ in range(self._choice.randint(2, 3)))
        return f"({word.join(parts)})"

    def _not(self, depth: int) -> str:
        return f"NOT {self.condition(depth)}"

    def _comparison(self, depth: int) -> str:
        operator = self._choice.choice(("=", "<>", "!=", "<", "<=", ">", ">=", "=="))
        write = self._choice.choice((self._number, self._text))
        match self._choice.randrange(4):
            case 0:
                negated = self._choice.choice(("", "NOT "))
                return f"({write(depth)} {negated}BETWEEN {write(0)} AND {write(0)})"
            case 1:
                negated = self._choice.choice(("", "NOT "))
                options = ", ".join(write(0) for _ in range(self._choice.randint(1, 4)))
                return f"({write(depth)} {negated}IN ({options}))"
        return f"{write(depth)} {operator} {write(depth)}"

    def _test_of_text(self, depth: int) -> str:
        pattern = "".join(self._choice.choice("ab%_Z") for _ in range(self._choice.randrange(5)))
        negated = self._choice.choice(("", "NOT "))
        return f"({self._text(depth)} {negated}LIKE '{pattern}')"

    def _is_null(self, depth: int) -> str:
        negated = self._choice.choice(("", "NOT "))
        return f"({self._choice.choice((self._number, self._text))(depth)} IS {negated}NULL)"

    def _number(self, depth: int) -> str:
        if depth and self._choice.random() < 0.5:
            operator = self._choice.choice("+-*/")
            return f"({self._number(depth - 1)} {operator} {self._number(depth - 1)})"
        match self._choice.randrange(11):
            case 8:
                # Here CEILING and FLOOR are whole numbers, in SQLite reals: it shows in a division.
                name = self._choice.choice(("CEILING", "FLOOR", "SIGN", "SQRT", "SIN", "COS", "LN"))
                return f"({name}({self._choice.choice((*NUMBERS, *REALS))}) * 1.0)"
            case 9:
                return f"INSTR({self._text(0)}, {self._text(0)})"
            case 10:
                digits = self._choice.choice(("", ", 0", ", 1"))
                return f"ROUND({self._choice.choice((*NUMBERS, *REALS))}{digits})"
            case 0:
                return f"({self._whole()} % {self._whole()})"
            case 1:
                return f"-{self._choice.choice(NUMBERS)}"
            case 2:
                return f"ABS({self._choice.choice((*NUMBERS, *REALS))})"
            case 3:
                return f"LENGTH({self._text(0)})"
            case 4:
                return self._choice.choice(REALS)
        return self._whole()

    def _whole(self) -> str:
        return self._choice.choice((*NUMBERS, "0", "1", "3", "10", "NULL"))

    def _text(self, depth: int) -> str:
        if depth:
            match self._choice.randrange(7):
                case 6:
                    trim = self._choice.choice(("TRIM", "LTRIM", "RTRIM"))
                    return f"{trim}({self._text(0)})"
                case 0:
                    return f"UPPER({self._ascii()})"
                case 1:
                    return f"SUBSTR({self._text(0)}, {self._choice.randint(1, 3)})"
                case 2:
                    return f"COALESCE({self._text(0)}, {self._text(0)})"
                case 3:
                    return f"REPLACE({self._text(0)}, 'a', 'xy')"
        return self._choice.choice((*TEXTS, f"'{self._choice.choice(_WORDS)}'"))

    def _ascii(self) -> str:
        """SQLite knows capitals of ASCII alone."""
        return self._choice.choice(("'ab'", "'B'", "NULL"))
