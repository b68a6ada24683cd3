"""The options of the data source for reading, and what reading and writing share of them.

Here text that a user gave becomes checked values. Nothing here asks a store or reads a file.
An unknown option is an error, because a misspelt one would otherwise be ignored in silence.
Spark folds the names of options to lower case, so case does not matter.
"""

from __future__ import annotations

import difflib
import enum
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

from quorate.pipeline.timeouts import TIMEOUTS, Timeouts
from quorate.protocol import times
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName, check_topic, parse_addresses, parse_session_id
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.patterns import PATTERN_LENGTH_MAX, pattern_of, topic_pattern
from quorate.subscriber.begin import read_time

T = TypeVar("T")
U = TypeVar("U")

TRIGGER_DELAY_SECONDS = 900.0
"""How long a small micro-batch waits for more messages, if no user says otherwise."""

SPARKS_OWN = frozenset({"path", "checkpointlocation", "queryname", "outputmode"})
"""The names of options that Spark itself adds to those of a source."""

OF_KAFKA = {
    "kafka.bootstrap.servers": "give stores",
    "subscribe": "give topics",
    "subscribepattern": "give topicsPattern",
    "startingoffsetsbytimestamp": "give startingTimestamp, or times in startingOffsets",
    "startingoffsetsbytimestampstrategy": (
        "leave it out: reading begins at the end if no message is that late"
    ),
    "endingoffsetsbytimestamp": "give endingTimestamp, or times in endingOffsets",
    "maxoffsetspertrigger": "give maxMessagesPerTrigger",
    "minoffsetspertrigger": "give minMessagesPerTrigger",
    "maxrecordsperpartition": "give maxMessagesPerPartition",
    "kafkaconsumer.polltimeoutms": "give fetchTimeout, in seconds",
    "fetchoffset.numretries": "give retryTimeout, in seconds",
    "fetchoffset.retryintervalms": "give retryTimeout, in seconds",
    "groupidprefix": "give cursorName",
    "kafka.group.id": "give cursorName",
    "includeheaders": "leave it out: the column properties is always there",
}
"""The options of Spark's source for Kafka that have another name here, and what to do instead."""

_TIME_NS_MAX = 2**63 - 10**18
"""Highest time, in ns since 1970.

The date 9999-12-31 exceeds 64 bits, and filters add to a time.
"""


class Options(Mapping[str, str]):
    """Options by name, whatever their case. An option counts as known once it was looked up."""

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
        """Return the option's parsed value, or the default if the option is missing or blank.

        Raises InvalidArgument, which names the option, if the text cannot be parsed.
        """
        text = self.get(name)
        if text is None or not text.strip():
            return default
        try:
            return parse(text.strip())
        except InvalidArgument as error:
            raise InvalidArgument(f"option {name}", error.detail) from None
        except ValueError as error:
            raise InvalidArgument(f"option {name}", str(error)) from None

    def check_none_of_kafka(self) -> None:
        """Raise InvalidArgument for an option that only Spark's source for Kafka has."""
        for name in self._options:
            if name in OF_KAFKA:
                raise InvalidArgument(
                    f"option {name}", f"is one of Spark's source for Kafka; {OF_KAFKA[name]}"
                )

    def check_all_known(self) -> None:
        """Raise InvalidArgument for each option that was never looked up."""
        for name in self._options:
            if name in self._known or name in SPARKS_OWN:
                continue
            close = difflib.get_close_matches(name, self._known, 1)
            known = f"known: {', '.join(sorted(self._known.values()))}"
            hint = f"did you mean {self._known[close[0]]}" if close else known
            raise InvalidArgument(f"option {name}", f"is not known; {hint}")


# Bounds.


class BoundKind(enum.Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    TIME = "time"
    SEQUENCE = "sequence"


@dataclass(frozen=True, slots=True)
class ReadBound:
    """A place in the stream of a source where a user lets reading begin or end."""

    kind: BoundKind
    value: int = 0
    """For TIME: ns since 1970. For SEQUENCE: the sequence number. Otherwise unused."""


EARLIEST = ReadBound(BoundKind.EARLIEST)
LATEST = ReadBound(BoundKind.LATEST)


@dataclass(frozen=True, slots=True)
class ReadBounds:
    """The places where reading begins, or those where it ends, for all sources."""

    default: ReadBound
    by_source: Mapping[SourceName, ReadBound] = field(default_factory=dict)

    def of(self, source: SourceName) -> ReadBound:
        return self.by_source.get(source, self.default)

    def all(self) -> set[ReadBound]:
        return {self.default, *self.by_source.values()}


def parse_source(text: str) -> SourceName:
    """Return the source that a text such as `topic/0x10` names. Raises InvalidArgument."""
    topic, slash, session_id = text.rpartition("/")
    if not slash:
        raise InvalidArgument("source", f"{text!r} is not TOPIC/SESSION, such as orders/0x10")
    return SourceName(check_topic(topic), parse_session_id(session_id))


def parse_time(text: str) -> int:
    """Return a time in ns since 1970.

    The text is ISO 8601, taken as UTC if it names no zone, or milliseconds since 1970.
    Raises InvalidArgument.
    """
    if re.fullmatch(r"-?\d+", text):
        return _within_reach(int(text) * 1_000_000)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(
            "time",
            f"{text!r} is neither a time such as 2026-01-31T12:00:00Z nor milliseconds since 1970",
        ) from None
    return nanoseconds_of(moment)


def nanoseconds_of(moment: datetime) -> int:
    """Return the time of a moment as times.nanoseconds_of does, with room for what is added."""
    return _within_reach(times.nanoseconds_of(moment))


def _within_reach(time_ns: int) -> int:
    return max(-_TIME_NS_MAX, min(time_ns, _TIME_NS_MAX))


def parse_bound(text: str) -> ReadBound:
    """Return what `earliest`, `latest` or a time means. Raises InvalidArgument."""
    if text.lower() in ("earliest", "latest"):
        return ReadBound(BoundKind(text.lower()))
    return ReadBound(BoundKind.TIME, parse_time(text))


def parse_bounds(text: str, default: ReadBound) -> ReadBounds:
    """Return one bound for all sources, or bounds by source from JSON.

    The JSON is `{"topic/0x10": bound or number, …}`; the default holds for every other source.
    Raises InvalidArgument.
    """
    if not text.startswith("{"):
        return ReadBounds(parse_bound(text))
    try:
        # Pairs show a name that occurs twice; a dict would hide it.
        entries = json.loads(text, object_pairs_hook=list)
    except ValueError as error:
        raise InvalidArgument("offsets", f"not JSON: {error}") from None
    bounds: dict[SourceName, ReadBound] = {}
    for name, value in entries:
        source = parse_source(name)
        if source in bounds:
            raise InvalidArgument("offsets", f"{source} is named twice")
        bounds[source] = _json_bound(value)
    return ReadBounds(default, bounds)


def _json_bound(value: object) -> ReadBound:
    match value:
        case bool():
            pass
        case -2:
            return EARLIEST
        case -1:
            return LATEST
        case int() if 0 <= value <= SEQUENCE_MAX:
            return ReadBound(BoundKind.SEQUENCE, value)
        case str():
            return parse_bound(value)
    raise InvalidArgument(
        "offsets", f"{value!r} is neither a sequence number nor earliest, latest or a time"
    )


# Reading.


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The checked options of a read."""

    stores: tuple[str, ...]
    """The address of each store, as host:port."""
    topics: frozenset[str]
    """The topics to read; empty: topics_pattern selects."""
    topics_pattern: str
    """A regular expression that the whole topic must match; empty: every topic matches."""
    start: ReadBounds
    end: ReadBounds
    parts_min: int
    """Fewest partitions to make, as far as there are messages; 0: as few as the size allows."""
    part_messages_max: int
    """Most messages of one partition."""
    fail_on_data_loss: bool
    trigger_messages_max: int
    """Most messages of a micro-batch; 0: no limit."""
    trigger_bytes_max: int
    """Most bytes of a micro-batch, roughly; 0: no limit."""
    cursor: str
    """The name under which the stores keep the progress of the query; empty: they keep none."""
    archive: str = ""
    """The path of the archive that holds what has left the stores; empty: none."""
    sources: frozenset[SourceName] = frozenset()
    """The sources to read; empty: all of the topics."""
    trigger_messages_min: int = 0
    """A micro-batch with fewer messages waits for more; 0: none waits."""
    trigger_delay_seconds: float = TRIGGER_DELAY_SECONDS
    """No micro-batch with messages waits longer than this after the one before."""
    timeouts: Timeouts = TIMEOUTS

    def selects(self, source: SourceName) -> bool:
        if self.sources:
            return source in self.sources
        if self.topics:
            return source.topic in self.topics
        return not self.topics_pattern or topic_pattern(self.topics_pattern).matches(source.topic)

    @property
    def asked_pattern(self) -> str:
        """A regular expression of the topics that stores are asked for; empty: all."""
        topics = self.topics or {source.topic for source in self.sources}
        pattern = pattern_of(sorted(topics)) if topics else self.topics_pattern
        return pattern if len(pattern) <= PATTERN_LENGTH_MAX else ""


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Return the checked options of a read.

    Raises InvalidArgument if an option is missing, unreadable or unknown, or contradicts another.
    """
    options = Options(given)
    options.check_none_of_kafka()
    _check_no_state(options)
    made = ReadOptions(
        stores=stores_of(options),
        topics=_topics_of(options),
        topics_pattern=options.parsed("topicsPattern", _pattern, ""),
        start=_bounds(options, "starting", EARLIEST),
        end=_bounds(options, "ending", LATEST),
        parts_min=options.parsed("minPartitions", _at_least_one, 0),
        part_messages_max=options.parsed("maxMessagesPerPartition", _at_least_one, SEQUENCE_MAX),
        fail_on_data_loss=options.parsed("failOnDataLoss", parse_boolean, True),
        trigger_messages_max=options.parsed("maxMessagesPerTrigger", _at_least_one, 0),
        trigger_bytes_max=options.parsed("maxBytesPerTrigger", _at_least_one, 0),
        cursor=options.get("cursorName", "").strip(),
        archive=options.get("archive", "").strip(),
        sources=options.parsed("assign", _sources, frozenset()),
        trigger_messages_min=options.parsed("minMessagesPerTrigger", _at_least_one, 0),
        trigger_delay_seconds=options.parsed("maxTriggerDelay", _delay, TRIGGER_DELAY_SECONDS),
        timeouts=Timeouts(
            options.parsed("answerTimeout", parse_seconds, TIMEOUTS.answer_seconds),
            options.parsed("fetchTimeout", parse_seconds, TIMEOUTS.silence_seconds),
            options.parsed("retryTimeout", parse_seconds, TIMEOUTS.retry_seconds),
        ),
    )
    options.check_all_known()
    _check_trigger(made, options)
    chosen = {
        "topics": made.topics,
        "topicsPattern": made.topics_pattern,
        "assign": made.sources,
    }
    given_ones = [name for name, choice in chosen.items() if choice]
    if len(given_ones) > 1:
        first, second = given_ones[:2]
        raise InvalidArgument(f"option {second}", f"is given together with {first}; give one")
    return made


def _check_trigger(made: ReadOptions, options: Options) -> None:
    """Raise InvalidArgument if the limits of a micro-batch contradict each other."""
    least, most = made.trigger_messages_min, made.trigger_messages_max
    if most and least > most:
        raise InvalidArgument(
            "option minMessagesPerTrigger",
            f"is {least}, and maxMessagesPerTrigger is {most}; give at most that",
        )
    if "maxTriggerDelay" in options and not least:
        raise InvalidArgument(
            "option maxTriggerDelay", "has no effect without minMessagesPerTrigger; give both"
        )


@dataclass(frozen=True, slots=True)
class StateOptions:
    """The checked options of a read of the state of the world."""

    stores: tuple[str, ...]
    """The address of each store, as host:port."""
    topics: tuple[str, ...]
    """The topics whose rows are read, each one once."""
    where: str
    """The condition that rows must meet, as a query has it; empty: every row is read."""
    as_of_ns: int | None
    """The time of which the rows are, in ns since 1970; None: those of now."""


def wants_state(given: Mapping[str, str]) -> bool:
    """Return whether the rows of keys are to be read. Raises InvalidArgument."""
    return Options(given).parsed("state", parse_boolean, False)


def state_options(given: Mapping[str, str], now_ns: int) -> StateOptions:
    """Return the checked options of a read of the state of the world.

    now_ns: the time from which `asOf` counts, in ns since 1970. Raises InvalidArgument if an option
    is missing, unreadable, or not one of such a read.
    """
    options = Options(given)
    options.parsed("state", parse_boolean, True)
    topics = _topics_of(options)
    if not topics:
        raise InvalidArgument("option topics", "is missing; name the topics whose rows are read")
    made = StateOptions(
        stores=stores_of(options),
        topics=tuple(sorted(topics)),
        where=options.get("where", "").strip(),
        as_of_ns=options.parsed("asOf", lambda text: read_time("asOf", text, now_ns), None),
    )
    options.check_all_known()
    return made


def _check_no_state(options: Options) -> None:
    """Raise InvalidArgument for an option that only a read of the state of the world has."""
    if options.parsed("state", parse_boolean, False):
        raise InvalidArgument("option state", "is for tables; a stream reads messages")
    for name in ("where", "asOf"):
        if options.get(name):
            raise InvalidArgument(f"option {name}", "needs the option state to be true")


def stores_of(options: Options) -> tuple[str, ...]:
    """Return the addresses of the stores to read from.

    Raises InvalidArgument if neither the option `stores` nor QUORATE_STORES names them.
    """
    named = named_stores(options)
    if not named:
        raise InvalidArgument(
            "option stores",
            "is missing; name them as a=host:port,b=host:port,…. Spark hands over no options of a "
            "table in a catalog. Make a temporary view instead, or give them in the query, as FROM "
            "orders WITH (stores = '…', topics = '…')",
        )
    try:
        return parse_addresses(named)
    except InvalidArgument as error:
        raise InvalidArgument("option stores", error.detail) from None


def named_stores(options: Options) -> str:
    """Return the text of the option `stores`, or of QUORATE_STORES; empty: there is none.

    Without any option the variable does not count. Spark hands over none of the options of a table
    in a catalog, and that table would have every topic.
    """
    default = os.environ.get("QUORATE_STORES", "") if len(options) else ""
    return options.get("stores", default).strip()


def _bounds(options: Options, which: str, default: ReadBound) -> ReadBounds:
    offsets = options.parsed(f"{which}Offsets", lambda text: parse_bounds(text, default), None)
    time = options.parsed(f"{which}Timestamp", parse_time, None)
    if offsets is not None and time is not None:
        raise InvalidArgument(
            f"option {which}Timestamp", f"is given together with {which}Offsets; give one"
        )
    if time is not None:
        return ReadBounds(ReadBound(BoundKind.TIME, time))
    return offsets or ReadBounds(default)


def _topics_of(options: Options) -> frozenset[str]:
    # An empty list that a program computed must not select every topic.
    if not options.get("topics", "all").strip(", "):
        raise InvalidArgument(
            "option topics", "names no topic; leave the option out to read all topics"
        )
    return options.parsed("topics", _topics, frozenset())


def _topics(text: str) -> frozenset[str]:
    return frozenset(check_topic(topic.strip()) for topic in text.split(",") if topic.strip())


def _sources(text: str) -> frozenset[SourceName]:
    return frozenset(parse_source(source.strip()) for source in text.split(",") if source.strip())


def _pattern(text: str) -> str:
    return topic_pattern(text).text


def _at_least_one(text: str) -> int:
    if not re.fullmatch(r"\d+", text) or int(text) < 1:
        raise InvalidArgument("number", f"{text!r} is not a whole number of at least 1")
    return int(text)


def _delay(text: str) -> float:
    return times.age_of("delay", text)


def parse_seconds(text: str) -> float:
    """Return a number of seconds above 0. Raises InvalidArgument."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InvalidArgument("seconds", f"{text!r} is not a number above 0")
    return seconds


def parse_boolean(text: str) -> bool:
    """Return what `true` or `false` means, in any case. Raises InvalidArgument."""
    if text.lower() not in ("true", "false"):
        raise InvalidArgument("value", f"{text!r} is neither true nor false")
    return text.lower() == "true"
