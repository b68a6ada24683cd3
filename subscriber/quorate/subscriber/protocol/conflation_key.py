"""The key and the interval of conflation, as an application names them. Pure."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from math import inf

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.filters.evaluate import value_at
from quorate.protocol.filters.parse import Named, read_fields
from quorate.protocol.filters.projection import Projection
from quorate.protocol.filters.values import kind_of
from quorate.protocol.payloads import PayloadFormat, document_of

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_HELP = 'give "key" for the key of the message, or fields such as "order.id" or ["id", "leg"]'
_OF_MESSAGE = "key"

Path = tuple[str | int, ...]


def read_interval(given: float | str) -> float:
    """Return the seconds of an interval such as 0.5 or "500ms". Raises InvalidArgument."""
    if isinstance(given, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m)\s*", given)
        if found is None:
            raise InvalidArgument("conflation", f'{given!r} is none; give "500ms", "2s" or seconds')
        seconds = float(found[1]) * _UNITS[found[2]]
    elif isinstance(given, int | float) and not isinstance(given, bool):
        seconds = given
    else:
        raise InvalidArgument("conflation", f'{given!r} is none; give "500ms", "2s" or seconds')
    if not 0 < seconds < inf:
        raise InvalidArgument("conflation", f"{given!r} is not above 0 seconds, or without end")
    return float(seconds)


class ConflationKey:
    """The key of the messages, or fields of payloads. Messages with the same are conflated.

    Each topic has keys of its own.
    """

    __slots__ = ("_form", "_paths")

    def __init__(
        self,
        given: str | Sequence[str],
        select: Projection | None,
        form: PayloadFormat = PayloadFormat.JSON,
    ) -> None:
        """Take what an application named.

        - select: the fields that the stores give; None: all.
        - form: the format of the payloads.

        Raises InvalidArgument.
        """
        self._form = form
        self._paths: tuple[Path, ...] = ()
        """The fields; none: the key of the message."""
        if given != _OF_MESSAGE:
            self._paths = tuple(map(_path, read_fields("conflation_key", given, _HELP)))
            for path in self._paths:
                if select is not None and not select.keeps(path):
                    raise InvalidArgument(
                        "conflation_key",
                        f"select leaves out the field {_shown(path)}; keep it, as the subscriber "
                        "compares it",
                    )

    def of(self, topic: str, key: bytes | None, payload: bytes) -> Hashable | None:
        """Return what messages have in common that are conflated.

        - key: that of the message; None: it has none.
        - Returns None for a message without the key, or without a number, a text or a truth in each
          of the fields.
        """
        if not self._paths:
            return None if key is None else (topic, key)
        document = document_of(payload, self._form)
        values = [value_at(document, path) for path in self._paths]
        if any(kind_of(value) in (None, list) or value != value for value in values):
            return None
        return (topic, *((kind_of(value), value) for value in values))


def _path(named: Named) -> Path:
    if named.is_left_out:
        raise InvalidArgument("conflation_key", f"a key leaves no field out; {_HELP}")
    return named.path


def _shown(path: Path) -> str:
    steps = (f".{step}" if isinstance(step, str) else f"[{step}]" for step in path)
    return "".join(steps).removeprefix(".")
