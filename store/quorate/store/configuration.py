"""The store's configuration: a TOML file, validated as a whole, with the path of each problem.

The texts behind the fields are what `quorate store schema` prints. Nothing here opens a data
directory or a socket.
"""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import tomli_w
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from quorate.protocol.access import EVERY_VERB, Access, AccessRule, Limits, Verb
from quorate.protocol.addresses import normal_address
from quorate.protocol.errors import (
    ConfigurationInvalid,
    InvalidArgument,
    InvalidFilter,
    QuorateError,
)
from quorate.protocol.keying import Keying, Missing
from quorate.protocol.limits import FRAME_BYTES_MAX, MESSAGE_BYTES_MAX, MESSAGE_BYTES_USUAL
from quorate.protocol.patterns import topic_pattern
from quorate.protocol.payloads import PayloadFormat
from quorate.protocol.queues import QueueSettings, check_distinct_queues
from quorate.protocol.tls import Tls
from quorate.protocol.toml import values_of
from quorate.store.rules.lifetimes import Lifetimes
from quorate.store.rules.retention import Bounds

_MIB = 1024 * 1024
_MODEL = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
_SHOWN_CHARACTERS_MAX = 100
_SHARED = (
    "topics", "source_activity_timeout", "source_state_lifetime", "receiver_activity_timeout",
    "receiver_state_lifetime", "deletion_grace", "retention_bytes", "retention_seconds",
    "retention_messages", "retain_until", "retain_for_subscribers_seconds", "topic",
    "message_bytes_max", "access",
)  # fmt: skip
"""The settings that all stores of a group should have in common."""
_EVERY_INTERFACE = ("0.0.0.0", "[::]", "::")


def _regular_expression(pattern: str) -> str:
    try:
        topic_pattern(pattern)
    except InvalidArgument as error:
        raise ValueError(error.detail) from None
    return pattern


def _host_and_port(address: str) -> str:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{address!r} is not of the form host:port, for example 127.0.0.1:7301")
    return normal_address(address)


def _keys(given: object) -> object:
    """Return one name as a list of it."""
    return (given,) if isinstance(given, str) else given


def _named_fields(keys: tuple[str, ...]) -> tuple[str, ...]:
    try:
        Keying(keys, Missing.DROP)
    except InvalidArgument as error:
        raise ValueError(error.detail) from None
    return keys


Pattern = Annotated[str, AfterValidator(_regular_expression)]
Address = Annotated[str, AfterValidator(_host_and_port)]
Durability = Literal["fsync", "os", "memory", "state-only"]


Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
VerbName = Literal[
    "send", "receive", "subscribe", "query", "delete", "consume", "operate", "replicate"
]
Condition = Literal["acknowledged", "archived"]
PayloadName = Literal["json", "msgpack"]
Keys = Annotated[tuple[str, ...], BeforeValidator(_keys), AfterValidator(_named_fields)]


class TopicConfiguration(BaseModel):
    """Settings for topics that a pattern matches. The first entry that matches a topic counts."""

    model_config = _MODEL

    pattern: Pattern
    """A regular expression of RE2 that must match the whole topic."""
    durability: Durability | None = None
    """As for the whole store. Not given: the store's setting."""
    source_activity_timeout: Seconds | None = None
    """As for the whole store. Not given: the store's setting."""
    source_state_lifetime: Seconds | None = None
    """As for the whole store. Not given: the store's setting."""
    receiver_activity_timeout: Seconds | None = None
    """As for the whole store. Not given: the store's setting."""
    receiver_state_lifetime: Seconds | None = None
    """As for the whole store. Not given: the store's setting."""
    retention_bytes: Count | None = None
    """As for the whole store. Not given: the store's setting."""
    retention_seconds: Seconds | None = None
    """As for the whole store. Not given: the store's setting."""
    retention_messages: Count | None = None
    """As for the whole store. Not given: the store's setting."""
    retain_until: tuple[Condition, ...] | None = None
    """As for the whole store. Not given: the store's setting."""
    retain_for_subscribers_seconds: Seconds | None = None
    """As for the whole store. Not given: the store's setting."""
    payload: PayloadName = "json"
    """The format of the payloads, in which filters, `select` and keys find fields. `json`: JSON.
    `msgpack`: MessagePack. The store takes payloads of any format. One that is of another has no
    fields. Give all stores of a group the same."""
    keys: Keys | None = None
    """Fields that say which thing a message is about, as filters name them. `"$key"` is the
    message's own key, `["order.id", "account"]` are fields of the payload. The store keeps the
    last stable message of each key for queries. Not given: the topics have no keys. Give all stores
    of a group the same keys."""
    missing: Literal["drop", "null"] | None = None
    """The fate of a message that lacks one of the keys.
    `drop`: it makes no row, and the store counts it.
    `null`: the missing field counts as null, and null is a value like any other.
    Not given: `drop`."""
    expires_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Seconds after the time of a message at which its row expires, if the message does not say so
    itself. Give all stores of a group the same. Not given: it does not expire."""
    history_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Seconds from now back to the earliest time of which a query may ask with `as_of`. So no query
    searches the journal for long. Not given: as far back as the journal reaches."""

    @model_validator(mode="after")
    def _has_keys(self) -> Self:
        if self.missing is not None and self.keys is None:
            raise ValueError("missing needs keys: it says what becomes of messages that lack one")
        if self.expires_seconds is not None and self.keys is None:
            raise ValueError("expires_seconds needs keys: it says when a row of a key expires")
        if self.history_seconds is not None and self.keys is None:
            raise ValueError("history_seconds needs keys: it says how old rows may be asked for")
        return self


class JwtConfiguration(BaseModel):
    """JSON Web Tokens that the store accepts from clients. Needs the extra `jwt`.

    The subject (`sub`) of a token is the identity. A token must expire (`exp`).
    """

    model_config = _MODEL

    issuer: Annotated[str, Field(min_length=1)]
    """The issuer that each token names (`iss`)."""
    audience: Annotated[str, Field(min_length=1)]
    """The audience that each token names (`aud`)."""
    keys: Path
    """The file with the public keys of the issuer, as a JSON Web Key Set. It may be replaced while
    the store runs."""


class TlsConfiguration(BaseModel):
    """The files with which the store proves who it is, and checks who its clients and peers are.

    The files may be replaced while the store runs: new connections use the new ones.
    """

    model_config = _MODEL

    certificate: Path
    """The store's certificate in PEM, with those between it and its authority. It names the host of
    the address at which others reach the store."""
    key: Path
    """The private key of the certificate in PEM."""
    ca: Path
    """The certificates in PEM of the authorities that may have made those of clients and peers."""
    mutual: bool = True
    """Whether each client must have a certificate of one of these authorities. If not, clients show
    tokens."""
    tokens: Path | None = None
    """The file with the identities of those who show tokens, and the hash of each token."""
    jwt: JwtConfiguration | None = None
    """The JSON Web Tokens that clients may show, besides those in the file of `tokens`."""
    token: Path | None = None
    """The file of the token that the store shows to its peers. Needed where they are not mutual."""

    @property
    def takes_tokens(self) -> bool:
        """Whether clients may show tokens."""
        return self.tokens is not None or self.jwt is not None

    @property
    def files(self) -> Tls:
        """The files as a channel or a server takes them."""
        paths = {"ca": self.ca, "certificate": self.certificate, "key": self.key}
        return Tls(**{name: str(path) for name, path in paths.items()}, token=str(self.token or ""))


class AccessConfiguration(BaseModel):
    """A rule of access: identities that may do something with topics."""

    model_config = _MODEL

    identities: Annotated[tuple[str, ...], Field(min_length=1)]
    """The alternative names in a certificate, its common name if it has none, or the identities of
    tokens. `*` stands for everybody who has one."""
    verbs: Annotated[tuple[VerbName, ...], Field(min_length=1)]
    """The things that they may do. `replicate` is for the other stores. `docs/security.md` says
    which call needs which verb."""
    topics: tuple[Pattern, ...] = ()
    """Regular expressions of RE2, of which one must match the whole topic. Not given: all
    topics."""
    connections_max: Count = 0
    """Connections on which each of the identities may have calls under way. 0: no such bound. Of
    several rules for one identity the tightest bound counts."""
    subscriptions_max: Count = 0
    """Subscriptions that each of the identities may have at a time. 0: no such bound."""
    bytes_per_second_max: Seconds = 0.0
    """Bytes that each of the identities may send in streams, or be sent, each second. The store
    lets a faster one wait. 0: no such bound."""

    @property
    def rule(self) -> AccessRule:
        """The rule as calls are checked by it."""
        return AccessRule(
            frozenset(self.identities),
            frozenset(map(Verb, self.verbs)),
            self.topics,
            Limits(self.connections_max, self.subscriptions_max, self.bytes_per_second_max),
        )


class AccessFile(BaseModel):
    """The content of a file of rules."""

    model_config = _MODEL

    access: Annotated[tuple[AccessConfiguration, ...], Field(min_length=1)]


class QueueConfiguration(BaseModel):
    """A queue: each message of its topics goes to one of several consumers.

    Give all stores of a group the same queues. One of them dispatches, and another one takes over
    if it fails.
    """

    model_config = _MODEL

    name: str
    """The name by which consumers ask for it: letters, digits and `_ . : -`. The stream of its
    decisions has the topic `quorate.queue.` and this name."""
    topics: Annotated[tuple[str, ...], BeforeValidator(_keys)] = ()
    """The topics whose messages it hands out, by name. A new queue begins with the first message
    that is there."""
    topic_pattern: str | None = None
    """The regular expression of these topics, in the place of their names. The messages of topics
    that come later are handed out, too."""
    where: str | None = None
    """A condition in the words of SQL. Messages for which it is not true are passed over. Not
    given: it hands out all."""
    lease_seconds: float = 60.0
    """Seconds for which a consumer has a message for itself. After that another one gets it."""
    tries: int = 5
    """How often a message is handed out, at most. After that it becomes a dead letter."""
    dead_letters: str | None = None
    """The topic to which dead letters are sent. Not given: they are counted and logged, and their
    messages stay where they are in their topics."""
    by_key: bool = False
    """Whether the messages of one key are handed out in their order, one at a time."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        try:
            self.settings  # noqa: B018
        except InvalidArgument as error:
            raise ValueError(f"{error.argument}: {error.detail}") from None
        except InvalidFilter as error:
            raise ValueError(f"where: {error}") from None
        return self

    @property
    def settings(self) -> QueueSettings:
        """The settings as a dispatcher takes them. Raises InvalidArgument, InvalidFilter."""
        return QueueSettings(**self.model_dump())


class MonitorConfiguration(BaseModel):
    """The HTTP server for those who watch the store: a live page of the group, health, metrics.

    With `[tls]` it speaks HTTPS with the store's certificate, and asks for none. With rules of
    access, page and metrics need a token of an identity that may query or operate all topics.
    """

    model_config = _MODEL

    listen: Address
    """The address on which it listens, host:port. Port 0 takes a free port."""


class StoreConfiguration(BaseModel):
    """All settings of a store."""

    model_config = _MODEL

    name: Annotated[str, Field(pattern=r"^[\w.:-]+$", max_length=255)]
    """The store's name in stability policies."""
    data_directory: Path
    """The directory of this store alone. The store makes it if there is none."""
    listen: Address = "127.0.0.1:7301"
    """The address on which the store listens, host:port. Port 0 takes a free port."""
    advertise: Address | None = None
    """The address at which others reach the store, host:port, if it differs from `listen`."""
    peers: tuple[Address, ...] | None = None
    """The addresses of the other stores of its groups, host:port. A store with a blank data
    directory asks them whether its group is new. It founds a new group only once all of them are
    blank too. An empty list says that there are no other stores."""
    topics: tuple[Pattern, ...] = (".*",)
    """Regular expressions of RE2. The store refuses a topic unless one of them matches the whole
    topic."""
    durability: Durability = "fsync"
    """Where a message must be before the store acknowledges it.
    `fsync`: on the disk.
    `os`: in the page cache, which outlives the process but not the host.
    `memory`: in the memory of the store, which writes it later.
    `state-only`: nowhere. The store takes no messages and counts towards the stability of none.
    It keeps registrations, the positions of receivers, and the messages that it already has.
    After an unclean stop the store is in limbo for the topics of which it may have lost messages.
    """
    source_activity_timeout: Seconds = 0.0
    """Seconds after a source's last sign of life during which the store refuses another instance
    of that source. 0: only while the source streams. A source may ask for another value, which then
    counts."""
    source_state_lifetime: Seconds = 0.0
    """Seconds after a source's last sign of life until it ends, with its messages, if enough stores
    have heard nothing of it. 0: never. A source may ask for another value; the shorter of the two
    counts."""
    receiver_activity_timeout: Seconds = 0.0
    """Seconds after a receiver's last sign of life during which the store refuses another instance
    of that receiver. A receiver gives a sign of life every 48 s at least, and three times
    within this time. 0: another instance fences the earlier one at once."""
    receiver_state_lifetime: Seconds = 0.0
    """Seconds after a receiver's last sign of life until the store deletes its position. 0:
    never."""
    deletion_grace: Seconds = 86_400.0
    """Seconds for which the store keeps the messages of a source that has ended, unless it begins
    anew before."""
    retention_bytes: Count = 0
    """Bytes that the batches of one source may take in the journal at most. Above it the store lets
    the oldest stable batches go, but never the newest batch. 0: no such bound. Each bound of
    retention holds for each source by itself. Give all stores of a group the same bounds: what one
    of them has let go, no other fetches again."""
    retention_seconds: Seconds = 0.0
    """Seconds until the store lets a batch go, counted from when it took the batch. 0: no such
    bound."""
    retention_messages: Count = 0
    """Messages of one source that the store keeps: the newest. Batches go as a whole, so up to one
    batch more is kept, of at most 4,096 messages. 0: no such bound. A batch that is over another
    bound goes all the same."""
    retain_until: tuple[Condition, ...] | None = None
    """Conditions that a message must meet before it may go, also when it is over a bound.
    `acknowledged`: every registered receiver that is waited for has acknowledged the message.
    `archived`: an archive has the message.
    Not given: `acknowledged` for sources that are paced by their receivers, none for all others.
    An empty list: none; the bounds alone decide."""
    retain_for_subscribers_seconds: Seconds = 0.0
    """Seconds for which a message that may go waits for the subscriptions that run at this store
    and have yet to read it. After that it goes, and their subscribers are told of a `Gap`. 0: it
    does not wait."""
    proxies: bool = True
    """Whether this store answers for sources that are away."""
    topic: tuple[TopicConfiguration, ...] = ()
    """Settings of their own for some topics."""
    stores: str | None = None
    """The stores of the group, this one included, as clients name them: `a=host:port,b=host:port`,
    or the path of the TOML file that clients read. The dispatchers of queues are clients of these
    stores. Needed with `[[queue]]`."""
    queue: tuple[QueueConfiguration, ...] = ()
    """Queues."""
    disk_free_min_bytes: Annotated[int, Field(ge=0)] = 64 * _MIB
    """Bytes that must be free on the disk. With less the store stops, before the disk is full."""
    disk_free_warning_bytes: Annotated[int, Field(ge=0)] = 1024 * _MIB
    """Bytes that should be free on the disk. With less the store warns, in its log and status."""
    pending_bytes_max: Annotated[int, Field(ge=FRAME_BYTES_MAX)] = 64 * _MIB
    """Bytes that may wait to be written. Above it the store takes nothing more from sources."""
    message_bytes_max: Annotated[int, Field(ge=MESSAGE_BYTES_USUAL, le=MESSAGE_BYTES_MAX)] = (
        MESSAGE_BYTES_MAX
    )
    """Bytes of the largest message that the store takes from a source: payload, key and properties.
    A source accepts 1 MiB unless it is told otherwise. From its peers and from archives a store
    takes what other stores have taken."""
    new_identities_per_second: Seconds = 1000.0
    """New sources and receivers that the clients of one host may register each second. Ten times as
    many may come at once. The store refuses more for now (`TooManyRegistrations`), and clients
    wait. Identities that the store knows do not count. 0: no such bound."""
    connections_max: Count = 0
    """Connections of clients and peers that may be open at once. A further one is closed before its
    handshakes. The store is not told, so it neither logs nor counts them. 0: no such bound."""
    store_bytes_max: Count = 0
    """Bytes that the batches of all sources may take in the journal. Above it the store lets the
    oldest batches of any source go, as far as retention may. It takes messages all the same, and
    says what keeps the rest. 0: no such bound."""
    sources_max: Count = 0
    """Sources that the store keeps. It refuses to register more (`StoreFull`). Those that it learns
    from its peers count, and are never refused. 0: no such bound."""
    receivers_max: Count = 0
    """Receivers that the store keeps, of all sources together. It refuses to register more
    (`StoreFull`). 0: no such bound."""
    subscriptions_max: Count = 10_000
    """Subscriptions that the store serves at a time. It refuses more (`TooManySubscriptions`), and
    subscribers go to other stores. An idle subscription takes some 30 KB of memory. 0: no such
    bound."""
    scrub_interval_seconds: Annotated[float, Field(ge=0)] = 86_400.0
    """Seconds in which the store reads and checks everything that it holds once. 0: never."""
    tls: TlsConfiguration | None = None
    """Settings of TLS. Not given: connections are not secure, for clients and for peers."""
    access: tuple[AccessConfiguration, ...] = ()
    """Rules of access. With one or more of them, what none permits is denied, also to the other
    stores, which need `replicate`. Not given: whoever can connect may do everything."""
    monitor: MonitorConfiguration | None = None
    """The HTTP server for the live page, health and metrics. Not given: there is none."""
    access_file: Path | None = None
    """A TOML file with the rules of access, as `[[access]]`, instead of those here. It may be
    replaced while the store runs: the next call is checked by the new rules."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level of the log lines that the store writes."""
    log_format: Literal["text", "json"] = "text"
    """The form of the log lines. `json`: an object a line, for programs that collect them."""

    @model_validator(mode="after")
    def _knows_identities(self) -> Self:
        if self.access and self.access_file is not None:
            raise ValueError(
                "access and access_file exclude each other; put all rules in one place"
            )
        if not self.access and self.access_file is None:
            return self
        if self.tls is None:
            raise ValueError("access needs tls: without it nobody can prove an identity")
        if not self.tls.mutual and not self.tls.takes_tokens:
            raise ValueError(
                "access needs tls.tokens, tls.jwt, or tls.mutual = true: nobody can prove an "
                "identity"
            )
        return self

    @model_validator(mode="after")
    def _can_dispatch(self) -> Self:
        if self.queue and self.stores is None:
            raise ValueError(
                "queue needs stores: a dispatcher is a client of the group's stores, as in "
                'stores = "a=host:7301,b=host:7301,c=host:7301"'
            )
        try:
            check_distinct_queues([each.settings for each in self.queue])
        except InvalidArgument as error:
            raise ValueError(error.detail) from None
        return self

    @property
    def access_rules(self) -> tuple[AccessRule, ...]:
        """The rules of access in the configuration; empty: there are none here."""
        if self.access or self.access_file is not None:
            return tuple(each.rule for each in self.access)
        return (EVERY_VERB,) if self.tls is not None and self.tls.takes_tokens else ()

    @model_validator(mode="after")
    def _can_be_reached(self) -> Self:
        if self.advertise is None and self.listen.rpartition(":")[0] in _EVERY_INTERFACE:
            raise ValueError(
                f"advertise must be given when listen is {self.listen}: nobody can connect to an "
                "address that stands for every interface"
            )
        return self

    def durability_of(self, topic: str) -> Durability:
        """Return where a message of this topic must be before the store acknowledges it."""
        entry = self._entry_of(topic)
        return (entry and entry.durability) or self.durability

    def lifetimes_of(self, topic: str, *, receiver: bool) -> Lifetimes:
        """Return how long sources of this topic, or their receivers, are protected and kept."""
        entry = self._entry_of(topic)
        role = "receiver" if receiver else "source"

        def value(name: str) -> float:
            chosen = getattr(entry, f"{role}_{name}", None)
            configured: float = getattr(self, f"{role}_{name}") if chosen is None else chosen
            return configured

        return Lifetimes(value("activity_timeout"), value("state_lifetime"))

    def retention_of(self, topic: str) -> Bounds:
        """Return the bounds of retention for each source of this topic."""
        entry = self._entry_of(topic)

        def value(name: str) -> Any:
            chosen = getattr(entry, name, None)
            return getattr(self, name) if chosen is None else chosen

        until = value("retain_until")
        return Bounds(
            value("retention_bytes"),
            value("retention_seconds"),
            value("retention_messages"),
            None if until is None else frozenset(until),
            value("retain_for_subscribers_seconds"),
        )

    def keying_of(self, topic: str) -> Keying | None:
        """Return the keys of this topic; None: it has none."""
        entry = self._entry_of(topic)
        if entry is None or entry.keys is None:
            return None
        return Keying(
            entry.keys,
            Missing(entry.missing or "drop"),
            entry.expires_seconds,
            PayloadFormat(entry.payload),
            entry.history_seconds,
        )

    def payload_of(self, topic: str) -> PayloadFormat:
        """Return the format of the payloads of this topic."""
        entry = self._entry_of(topic)
        return PayloadFormat.JSON if entry is None else PayloadFormat(entry.payload)

    def _entry_of(self, topic: str) -> TopicConfiguration | None:
        """Return the first entry that matches a topic; None if none does."""
        matching = (each for each in self.topic if topic_pattern(each.pattern).matches(topic))
        return next(matching, None)

    @property
    def shared_settings(self) -> dict[str, str]:
        """The settings that all stores of a group should have in common, by name.

        Values are JSON. Of a long one, and of the rules of access, this is a digest.
        """
        values = self.model_dump(mode="json", include=set(_SHARED))
        return {name: _shown(name, values[name]) for name in _SHARED}

    @property
    def shortest_retention(self) -> float:
        """The shortest time in seconds after which a batch may go by age; 0: no batch does."""
        given = [self.retention_seconds, *(each.retention_seconds or 0.0 for each in self.topic)]
        return min((seconds for seconds in given if seconds), default=0.0)


def read_access(path: str) -> Access:
    """Return the rules in a file. Raises ConfigurationInvalid, which names every problem."""
    try:
        values = values_of(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise ConfigurationInvalid(path, f"  the file cannot be read: {error}") from None
    try:
        found = AccessFile.model_validate(values)
    except ValidationError as error:
        raise ConfigurationInvalid(path, "\n".join(_problems(error))) from None
    return Access(each.rule for each in found.access)


def cannot_listen(key: str, listen: str, error: OSError) -> QuorateError:
    """Return the error of a store that cannot listen on an address of its configuration.

    It is ConfigurationInvalid if nobody knows the name: another try would not help. It is
    InvalidArgument otherwise: a port may be free again soon, and a name server may answer again.
    """
    detail = error.strerror or str(error)
    if isinstance(error, socket.gaierror) and error.errno != socket.EAI_AGAIN:
        host = listen.rpartition(":")[0]
        problem = (
            f"  {key}: the name {host} has no address ({detail}). Correct it, or listen on an "
            "address of this host; 0.0.0.0 stands for all of them."
        )
        return ConfigurationInvalid("of the store", problem)
    return InvalidArgument(
        key, f"the store cannot listen on {listen} ({detail}); choose another port or address"
    )


def load(path: Path | None, overrides: Mapping[str, Any] | None = None) -> StoreConfiguration:
    """Return the configuration in a file, if a path is given. An override replaces the file's key.

    Of `[tls]` it replaces the keys that it has.

    Raises ConfigurationInvalid, which names every problem.
    """
    where = str(path) if path is not None else "from the command line"
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = values_of(path.read_text())
        except (OSError, ValueError) as error:
            raise ConfigurationInvalid(where, f"  the file cannot be read: {error}") from None
    given = {key: value for key, value in (overrides or {}).items() if value is not None}
    if isinstance(in_file := values.get("tls"), dict) and "tls" in given:
        given["tls"] = {**in_file, **given["tls"]}
    values |= given
    try:
        return StoreConfiguration.model_validate(values)
    except ValidationError as error:
        raise ConfigurationInvalid(where, "\n".join(_problems(error))) from None


def as_toml(configuration: StoreConfiguration) -> str:
    """Return the file with which a store has this configuration, defaults included."""
    return tomli_w.dumps(configuration.model_dump(mode="json", exclude_none=True))


def schema() -> dict[str, Any]:
    """Return the JSON schema of the configuration."""
    return StoreConfiguration.model_json_schema()


def _shown(name: str, value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    if len(text) <= _SHOWN_CHARACTERS_MAX and (name != "access" or not value):
        return text
    return f"digest {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _problems(error: ValidationError) -> list[str]:
    return [
        f"  {'.'.join(map(str, problem['loc'])) or 'configuration'}: {_text(problem)}"
        for problem in error.errors()
    ]


def _text(problem: Any) -> str:
    match problem["type"]:
        case "extra_forbidden":
            return "there is no such key; `quorate store schema` lists the keys"
        case "missing":
            return "must be given"
        case "value_error" if not problem["loc"] or isinstance(problem["input"], dict):
            return str(problem["ctx"]["error"])
        case _:
            return f"{problem['msg'].removeprefix('Value error, ')} (got {problem['input']!r})"
