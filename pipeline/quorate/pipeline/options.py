"""The options of the data source: what users may say, checked, as types.

Pure. An option that is not known is an error, because one that is misspelt would otherwise be
ignored in silence. Spark folds the names of options to lower case, so case does not matter.
"""

from __future__ import annotations

import difflib
import enum
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName, check_topic, parse_session_id, parse_stores
from quorate.protocol.limits import SEQUENCE_MAX

T = TypeVar("T")
U = TypeVar("U")

SPARKS_OWN = frozenset({"path", "checkpointlocation", "queryname", "outputmode"})
"""What Spark itself puts among the options of a source."""

_TIME_NS_MAX = 2**63 - 10**18
"""What people write for never, as 9999-12-31, is more than 64 bits have; filters add to it."""


class Options(Mapping[str, str]):
    """Options by name, whatever their case; each has to be taken, or it is not known."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): str(value) for name, value in options.items()}
        self._known: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        self._known[name.lower()] = name
        return self._options[name.lower()]

    def __iter__(self) -> Any:
        return iter(self._options)

    def __len__(self) -> int:
        return len(self._options)

    def parsed(self, name: str, parse: Callable[[str], T], default: U) -> T | U:
        """The option's value; raises InvalidArgument, which names it, if it is none."""
        text = self.get(name)
        if text is None or not text.strip():
            return default
        try:
            return parse(text.strip())
        except InvalidArgument as error:
            raise InvalidArgument(f"option {name}", error.detail) from None
        except ValueError as error:
            raise InvalidArgument(f"option {name}", str(error)) from None

    def check_all_known(self) -> None:
        """Raise InvalidArgument for options that nobody asked for."""
        for name in self._options:
            if name in self._known or name in SPARKS_OWN:
                continue
            close = difflib.get_close_matches(name, self._known, 1)
            known = f"known: {', '.join(sorted(self._known.values()))}"
            hint = f"did you mean {self._known[close[0]]}" if close else known
            raise InvalidArgument(f"option {name}", f"is not known; {hint}")


# Positions.


class PositionKind(enum.Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    TIME = "time"
    SEQUENCE = "sequence"


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the stream of a source, as users name it."""

    kind: PositionKind
    value: int = 0
    """Of TIME: ns since 1970; of SEQUENCE: the number."""


EARLIEST = Position(PositionKind.EARLIEST)
LATEST = Position(PositionKind.LATEST)


@dataclass(frozen=True, slots=True)
class Positions:
    """Where to begin or to end, for each source."""

    default: Position
    by_source: Mapping[SourceName, Position] = field(default_factory=dict)

    def of(self, source: SourceName) -> Position:
        return self.by_source.get(source, self.default)

    def all(self) -> set[Position]:
        return {self.default, *self.by_source.values()}


def parse_source(text: str) -> SourceName:
    """`topic/0x10`; raises InvalidArgument."""
    topic, slash, session_id = text.rpartition("/")
    if not slash:
        raise InvalidArgument("source", f"{text!r} is not as orders/0x10, topic and session ID")
    return SourceName(check_topic(topic), parse_session_id(session_id))


def parse_time(text: str) -> int:
    """A time in ns since 1970: ISO 8601, taken as UTC if it names no zone, or ms since 1970."""
    if re.fullmatch(r"-?\d+", text):
        return _within_reach(int(text) * 1_000_000)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(
            "time", f"{text!r} is neither as 2026-01-31T12:00:00Z nor milliseconds since 1970"
        ) from None
    return nanoseconds_of(moment)


def nanoseconds_of(moment: datetime) -> int:
    """Since 1970; a moment without a zone is taken as UTC, one that no clock shows as far away."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    microseconds = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return _within_reach(microseconds * 1000)


def _within_reach(time_ns: int) -> int:
    return max(-_TIME_NS_MAX, min(time_ns, _TIME_NS_MAX))


def parse_position(text: str) -> Position:
    """`earliest`, `latest`, or a time."""
    if text.lower() in ("earliest", "latest"):
        return Position(PositionKind(text.lower()))
    return Position(PositionKind.TIME, parse_time(text))


def parse_positions(text: str, default: Position) -> Positions:
    """One position for all, or JSON `{"topic/0x10": position or number, …}` for some."""
    if not text.startswith("{"):
        return Positions(parse_position(text))
    try:
        # As pairs, so that a name that is there twice is noticed.
        entries = json.loads(text, object_pairs_hook=list)
    except ValueError as error:
        raise InvalidArgument("positions", f"not JSON: {error}") from None
    positions: dict[SourceName, Position] = {}
    for name, value in entries:
        source = parse_source(name)
        if source in positions:
            raise InvalidArgument("positions", f"{source} is named twice")
        positions[source] = _json_position(value)
    return Positions(default, positions)


def _json_position(value: object) -> Position:
    match value:
        case bool():
            pass
        case -2:
            return EARLIEST
        case -1:
            return LATEST
        case int() if 0 <= value <= SEQUENCE_MAX:
            return Position(PositionKind.SEQUENCE, value)
        case str():
            return parse_position(value)
    raise InvalidArgument(
        "positions", f"{value!r} is neither a sequence number nor earliest, latest or a time"
    )


# Reading.


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What to read, and how."""

    stores: tuple[str, ...]
    """host:port of each."""
    topics: frozenset[str]
    """Exactly these; empty: see topics_pattern."""
    topics_pattern: str
    """A regular expression that the whole topic must match; empty: see topics."""
    start: Positions
    end: Positions
    parts_min: int
    """How many partitions to make if there is enough to read; 0: as many as there are cores."""
    part_messages_max: int
    """Of a partition."""
    fail_on_data_loss: bool
    push_filters: bool
    """Read only what the filters of the query leave; of a table, not of a stream."""
    trigger_messages_max: int
    """Of a micro-batch; 0: no limit."""
    trigger_bytes_max: int
    """Of a micro-batch, roughly; 0: no limit."""
    cursor: str
    """Under which progress is kept in the stores; empty: it is not."""
    archive: str = ""
    """Where what has left the stores is; empty: nowhere."""

    def selects(self, topic: str) -> bool:
        if self.topics:
            return topic in self.topics
        return not self.topics_pattern or bool(re.fullmatch(self.topics_pattern, topic))


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Raises InvalidArgument for what is missing, not understood, not known, or contradictory."""
    options = Options(given)
    made = ReadOptions(
        stores=stores_of(options),
        topics=_topics_of(options),
        topics_pattern=options.parsed("topicsPattern", _pattern, ""),
        start=_positions(options, "starting", EARLIEST),
        end=_positions(options, "ending", LATEST),
        parts_min=options.parsed("minPartitions", _at_least_one, 0),
        part_messages_max=options.parsed("maxMessagesPerPartition", _at_least_one, SEQUENCE_MAX),
        fail_on_data_loss=options.parsed("failOnDataLoss", _boolean, True),
        push_filters=options.parsed("filterPushdown", _boolean, False),
        trigger_messages_max=options.parsed("maxMessagesPerTrigger", _at_least_one, 0),
        trigger_bytes_max=options.parsed("maxBytesPerTrigger", _at_least_one, 0),
        cursor=options.get("cursorName", "").strip(),
        archive=options.get("archive", "").strip(),
    )
    options.check_all_known()
    if made.topics and made.topics_pattern:
        raise InvalidArgument("option topicsPattern", "is given together with topics; give one")
    return made


def stores_of(options: Options) -> tuple[str, ...]:
    """The addresses in the option `stores`, which must be there; raises InvalidArgument."""
    stores = options.parsed("stores", parse_stores, ())
    if not stores:
        raise InvalidArgument("option stores", "is missing; name them as host:port,host:port,…")
    return tuple(store.address for store in stores)


def _positions(options: Options, which: str, default: Position) -> Positions:
    offsets = options.parsed(f"{which}Offsets", lambda text: parse_positions(text, default), None)
    time = options.parsed(f"{which}Timestamp", parse_time, None)
    if offsets is not None and time is not None:
        raise InvalidArgument(
            f"option {which}Timestamp", f"is given together with {which}Offsets; give one"
        )
    if time is not None:
        return Positions(Position(PositionKind.TIME, time))
    return offsets or Positions(default)


def _topics_of(options: Options) -> frozenset[str]:
    # A list that somebody computed, and that is empty, must not mean everything.
    if not options.get("topics", "all").strip(", "):
        raise InvalidArgument("option topics", "names none; leave it out to read all topics")
    return options.parsed("topics", _topics, frozenset())


def _topics(text: str) -> frozenset[str]:
    return frozenset(check_topic(topic.strip()) for topic in text.split(",") if topic.strip())


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise InvalidArgument("pattern", f"{text!r} is no regular expression: {error}") from None
    return text


def _at_least_one(text: str) -> int:
    if not re.fullmatch(r"\d+", text) or int(text) < 1:
        raise InvalidArgument("number", f"{text!r} is no whole number from 1 on")
    return int(text)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidArgument("value", f"{text!r} is neither true nor false")
    return text.lower() == "true"
