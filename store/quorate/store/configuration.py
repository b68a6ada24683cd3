"""The store's configuration: TOML, validated whole, every problem at once with its path."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from quorate.protocol.errors import ConfigurationInvalid
from quorate.protocol.limits import FRAME_BYTES_MAX
from quorate.store.rules.lifetimes import Lifetimes
from quorate.store.rules.retention import Bounds

_MIB = 1024 * 1024
_MODEL = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
_EVERY_INTERFACE = ("0.0.0.0", "[::]", "::")


def _regular_expression(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    return pattern


def _host_and_port(address: str) -> str:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{address!r} is not of the form host:port, as 127.0.0.1:7301")
    return address


Pattern = Annotated[str, AfterValidator(_regular_expression)]
Address = Annotated[str, AfterValidator(_host_and_port)]
Durability = Literal["fsync", "os", "memory", "state-only"]


Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Condition = Literal["acknowledged", "archived"]


class TopicConfiguration(BaseModel):
    """What differs for the topics that a pattern matches; the first match counts."""

    model_config = _MODEL

    pattern: Pattern
    """A regular expression that must match all of the topic."""
    durability: Durability = "fsync"
    source_activity_timeout: Seconds | None = None
    source_state_lifetime: Seconds | None = None
    receiver_activity_timeout: Seconds | None = None
    receiver_state_lifetime: Seconds | None = None
    retention_bytes: Count | None = None
    retention_seconds: Seconds | None = None
    retention_messages: Count | None = None
    retain_until: tuple[Condition, ...] | None = None
    """As for the whole store; what is not given, is as there."""


class StoreConfiguration(BaseModel):
    """Everything that can be set for a store."""

    model_config = _MODEL

    name: Annotated[str, Field(pattern=r"^[\w.:-]+$", max_length=255)]
    """What policies call this store."""
    data_directory: Path
    """Its own directory; made if there is none."""
    listen: Address = "127.0.0.1:7301"
    """Where it serves; port 0 takes a free one."""
    advertise: Address | None = None
    """How others reach it, if not at the address that it listens on."""
    peers: tuple[Address, ...] | None = None
    """Where the other stores of its groups serve, host:port. A store whose data directory is blank
    needs them to tell a new group, which it founds once all of them are blank too, from one that it
    returns to. An empty list says that there are none."""
    topics: tuple[Pattern, ...] = (".*",)
    """Regular expressions, one of which must match all of a topic; others are refused."""
    durability: Durability = "fsync"
    """`fsync`: on the disk before it is acknowledged; `os`: in the page cache, which outlives the
    process but not the host; `memory`: as soon as the store has taken it, and it is written later.
    A store that was not stopped cleanly is in limbo for what it may have lost so. `state-only`: no
    message is taken; registrations and the positions of receivers are kept, on the disk, and what
    was taken before stays. The store counts towards no message's being stable."""
    source_activity_timeout: Seconds = 0.0
    """Seconds after a source's last sign of life for which another instance of it is refused. 0:
    only while it streams. What a source asks for overrides it."""
    source_state_lifetime: Seconds = 0.0
    """Seconds after a source's last sign of life after which all that is stored of it is deleted.
    0: never. If a source asks for one, too, the shorter counts."""
    receiver_activity_timeout: Seconds = 0.0
    """The same for receivers, who show every three seconds that they live; 0: another instance
    fences the one before at once."""
    receiver_state_lifetime: Seconds = 0.0
    """Seconds after which the position of a receiver that is away is forgotten. 0: never."""
    deletion_grace: Seconds = 86_400.0
    """Seconds for which the messages of a deleted source are kept aside, in case it turns out to
    live on elsewhere."""
    retention_bytes: Count = 0
    """Bytes that the batches of one source may take in the journal at most; over it its oldest go,
    of what is stable, and only the newest stays though it alone takes more. 0: no such bound. Like
    what follows it is for each source, and best the same at all stores of a group: what one of them
    has let go no other fetches again."""
    retention_seconds: Seconds = 0.0
    """Seconds after which a batch goes, counted from when the store took it. 0: no such bound."""
    retention_messages: Count = 0
    """Messages of one source that are kept at least: its newest. Batches go as a whole, so that up
    to one batch more is kept, of at most 4,096 messages. 0: no such bound. What is over another
    bound goes all the same."""
    retain_until: tuple[Condition, ...] | None = None
    """What must be so before anything goes, whatever the bounds say. `acknowledged`: every receiver
    that is registered with the source, and is waited for, has acknowledged it; `archived`: an
    archive has it. If nothing is given it is for sources to say: of those that are paced by their
    receivers nothing goes before `acknowledged`. An empty list leaves it to the bounds alone."""
    proxies: bool = True
    """Whether this store may answer for sources that are away."""
    topic: tuple[TopicConfiguration, ...] = ()
    """Topics that differ."""
    disk_free_min_bytes: Annotated[int, Field(ge=0)] = 64 * _MIB
    """With less room than this on the disk, in bytes, the store stops before it is full."""
    pending_bytes_max: Annotated[int, Field(ge=FRAME_BYTES_MAX)] = 64 * _MIB
    """How much may wait to be written, in bytes; sources are held up beyond it."""
    scrub_interval_seconds: Annotated[float, Field(ge=0)] = 86_400.0
    """Everything that is held is read and checked once in this time; 0: never."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @model_validator(mode="after")
    def _can_be_reached(self) -> Self:
        if self.advertise is None and self.listen.rpartition(":")[0] in _EVERY_INTERFACE:
            raise ValueError(
                f"advertise must be given when listen is {self.listen}: nobody can connect to an "
                "address that stands for all of them"
            )
        return self

    def durability_of(self, topic: str) -> Durability:
        """How durable this topic is kept."""
        for entry in self.topic:
            if re.fullmatch(entry.pattern, topic):
                return entry.durability
        return self.durability

    def lifetimes_of(self, topic: str, *, receiver: bool) -> Lifetimes:
        """How long sources of this topic, or their receivers, are protected and kept."""
        entry = next((each for each in self.topic if re.fullmatch(each.pattern, topic)), None)
        role = "receiver" if receiver else "source"

        def value(name: str) -> float:
            chosen = getattr(entry, f"{role}_{name}", None)
            configured: float = getattr(self, f"{role}_{name}") if chosen is None else chosen
            return configured

        return Lifetimes(value("activity_timeout"), value("state_lifetime"))

    def retention_of(self, topic: str) -> Bounds:
        """What is kept of each source of this topic."""
        entry = next((each for each in self.topic if re.fullmatch(each.pattern, topic)), None)

        def value(name: str) -> Any:
            chosen = getattr(entry, name, None)
            return getattr(self, name) if chosen is None else chosen

        until = value("retain_until")
        return Bounds(
            value("retention_bytes"),
            value("retention_seconds"),
            value("retention_messages"),
            None if until is None else frozenset(until),
        )

    @property
    def shortest_retention(self) -> float:
        """The shortest time after which anything goes, in seconds; 0: nothing goes by age."""
        given = [self.retention_seconds, *(each.retention_seconds or 0.0 for each in self.topic)]
        return min((seconds for seconds in given if seconds), default=0.0)


def load(path: Path | None, overrides: Mapping[str, Any] | None = None) -> StoreConfiguration:
    """The configuration of a file, if there is one; overrides win key by key.

    Raises ConfigurationInvalid with every problem.
    """
    where = str(path) if path is not None else "from the command line"
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigurationInvalid(where, f"  the file can not be read: {error}") from None
    values |= {key: value for key, value in (overrides or {}).items() if value is not None}
    try:
        return StoreConfiguration.model_validate(values)
    except ValidationError as error:
        raise ConfigurationInvalid(where, "\n".join(_problems(error))) from None


def schema() -> dict[str, Any]:
    """The JSON schema of the configuration."""
    return StoreConfiguration.model_json_schema()


def _problems(error: ValidationError) -> list[str]:
    return [
        f"  {'.'.join(map(str, problem['loc'])) or 'configuration'}: {_text(problem)}"
        for problem in error.errors()
    ]


def _text(problem: Any) -> str:
    match problem["type"]:
        case "extra_forbidden":
            return "there is no such key; see `quorate store schema` for those there are"
        case "missing":
            return "must be given"
        case "value_error" if not problem["loc"]:
            return str(problem["ctx"]["error"])
        case _:
            return f"{problem['msg'].removeprefix('Value error, ')} (got {problem['input']!r})"
