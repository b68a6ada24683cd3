"""The decoders that the fuzzer feeds: batches, texts, wire messages, records and files.

A target has seeds, a way to change them, and what reads an input. A reader may refuse an input with
one of Quorate's errors. Any other exception is a failure.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgpack
from google.protobuf.message import DecodeError, Message
from tests.fuzz import corpus, records
from tests.fuzz.mutation import Mutator

from quorate.client.file_settings import read_file
from quorate.protocol.addresses import normal_address
from quorate.protocol.answers import AnswerReading, joined
from quorate.protocol.attributes import checked_attributes, decode_attributes, encode_attributes
from quorate.protocol.bookmarks import Bookmark, Position
from quorate.protocol.errors import QuorateError
from quorate.protocol.filters.evaluate import Filter
from quorate.protocol.filters.messages import passing
from quorate.protocol.filters.projection import Projection
from quorate.protocol.fragments import Assembly, encode_large
from quorate.protocol.framing import (
    body_of,
    check_batch,
    compressed,
    encode_batch,
    plain,
    read_messages,
)
from quorate.protocol.identity import SourceName, parse_stores
from quorate.protocol.keying import Keying, Missing
from quorate.protocol.layout_text import parse_group, read_toml
from quorate.protocol.limits import FRAGMENT_BYTES, WHOLE_BATCH_BYTES_MAX
from quorate.protocol.patterns import topic_pattern
from quorate.protocol.payloads import PayloadFormat, document_of
from quorate.protocol.ranges import Range
from quorate.protocol.wire import (
    held_from_wire,
    lineage_from_wire,
    markers_from_wire,
    membership_from_wire,
    pacing_from_wire,
    position_from_wire,
)
from quorate.source.publish_store.directory import FilePublishStore
from quorate.store.configuration import load
from quorate.store.rules.state_order import Ordering
from quorate.store.storage.clean_shutdown import left_over
from quorate.store.storage.data_directory import FORMAT, read_identity
from quorate.store.storage.records import Malformed
from quorate.transport.failures import failure_from_wire
from quorate.transport.identities import hash_of, read_tokens
from quorate.v1 import messages_pb2 as v1

ORDERS = SourceName("orders", 0x10)
REFUSALS = (QuorateError, DecodeError, Malformed)
"""The errors that a reader may raise. gRPC turns the second one into a failed call."""

_MESSAGE_BYTES_MAX = 64 * 1024
"""Bytes of the largest message: longer ones only take longer."""
_USED_BYTES = 256
"""Bytes at the beginning of a long input that say something."""
_FILTERS = [
    "amount > 10 AND NOT (customer.name LIKE 'a%' OR tags[0] IN ('x', 'y'))",
    "$key = 'a' AND $sequence BETWEEN 1 AND 5 OR $time > 1.5e9",
    "upper(name) = 'B' AND length(name) + 2 * 3 - -1 < 10 / 4 % 3",
    "name MATCHES '^(a|b)+$' OR name BEGINS WITH ('a') OR note IS NOT NULL",
    "$properties.desk = 'fx' AND coalesce(a, b, 1) <> 2 AND round(a) = abs(b)",
]
_DOCUMENTS = [
    b'{"amount": 12, "customer": {"name": "anna"}, "tags": ["x", 1, null], "name": "b"}',
    b'{"a": 1e400, "b": -0.0, "name": "ab", "note": "", "deep": [[[[[[1]]]]]]}',
    b"[1, 2]",
    b"\xff",
]
_PACKED = [
    *(msgpack.packb(json.loads(each)) for each in _DOCUMENTS[:3]),
    msgpack.packb({"name": b"x", "tags": [msgpack.Timestamp(5, 7), msgpack.ExtType(3, b"x")]}),
    msgpack.packb({"amount": float("nan"), "deep": [[[{}]]], "note": "x" * 300}),
]
_STORE_TOML = """
name = "a"
data_directory = "/data"
listen = "127.0.0.1:7301"
peers = ["127.0.0.1:7302"]
topics = ["orders.*"]
durability = "os"
retention_seconds = 5.5
retain_until = ["acknowledged"]
[[topic]]
pattern = "trades"
payload = "msgpack"
keys = ["order.id", "account"]
missing = "null"
[tls]
certificate = "a.pem"
key = "b.pem"
ca = "c.pem"
tokens = "t"
[[access]]
identities = ["*"]
verbs = ["send"]
topics = ["a.*"]
bytes_per_second_max = 10
"""
_CLIENT_TOML = """
previous = [{ stores = ["a=127.0.0.1:1"] }]
intergroup = "any"
[[groups]]
name = "g"
stores = ["a=127.0.0.1:7301", "b=[::1]:7302"]
rule = "quorum"
[tls]
ca = "ca.pem"
[source]
retention_bytes_max = 5
[[source.topic]]
pattern = "a.*"
[receiver]
"""


@dataclass(frozen=True)
class Target:
    """Something that reads inputs of strangers."""

    seeds: Callable[[], Sequence[bytes]]
    """Valid inputs."""
    read: Callable[[bytes], object]
    """Reads an input. Raises one of REFUSALS, or AssertionError if it took what it must not."""
    change: Callable[[Mutator, bytes, Sequence[bytes]], bytes]

    def input(self, mutator: Mutator) -> bytes:
        """Return a changed input."""
        seeds = self.seeds()
        return self.change(mutator, mutator.random.choice(seeds), seeds)


# -- changes -----------------------------------------------------------------------------------


def _data(mutator: Mutator, seed: bytes, others: Sequence[bytes]) -> bytes:
    return mutator.data(seed, others)


def _text(mutator: Mutator, seed: bytes, others: Sequence[bytes]) -> bytes:
    if mutator.chance(0.1):
        return mutator.data(seed, others)
    texts = [each.decode() for each in others]
    return mutator.text(seed.decode(errors="replace"), texts).encode(errors="replace")


def _batch(mutator: Mutator, seed: bytes, _: Sequence[bytes]) -> bytes:
    return mutator.batch(seed)


def _beginning(mutator: Mutator, seed: bytes, _: Sequence[bytes]) -> bytes:
    """Change the beginning of an input that is long, and mostly says nothing."""
    return mutator.data(seed[:_USED_BYTES]) + seed[_USED_BYTES:]


def _message(kind: type[Message]) -> Callable[[Mutator, bytes, Sequence[bytes]], bytes]:
    def change(mutator: Mutator, seed: bytes, others: Sequence[bytes]) -> bytes:
        if mutator.chance(0.2):
            return mutator.data(seed, others)
        changed = mutator.message(kind.FromString(seed)).SerializeToString()
        return changed if len(changed) <= _MESSAGE_BYTES_MAX else seed

    return change


# -- seeds -------------------------------------------------------------------------------------


def batches() -> list[bytes]:
    """Return batches of every kind: plain and compressed, with attributes, times and a marker."""
    attributes = [
        checked_attributes(b"a", {"desk": b"fx"}),
        checked_attributes(b"b", {"desk": b"\xff", "more": b""}, expires_ns=2**62),
        checked_attributes(b"c", deleted=True),
        checked_attributes(),
    ]
    several = encode_batch(ORDERS, 1, 3, _DOCUMENTS, 1_700_000_000 * 10**9, b"m", attributes)
    times = encode_batch(ORDERS, 1, 0, [b"", b"x" * 300], 5, later=[0, 2**40])
    alike = encode_batch(ORDERS, 2, 7, [b"same content"] * 100, 5)
    return [several, times, alike, compressed(alike), compressed(several)]


@cache
def large_batch() -> bytes:
    """Return the bytes of a large batch."""
    payload = bytes(WHOLE_BATCH_BYTES_MAX)
    return encode_large(ORDERS, 1, 0, payload, 5, checked_attributes(b"a")).joined()


def _encoded(*texts: str) -> Callable[[], list[bytes]]:
    return lambda: [text.encode() for text in texts]


def _tokens() -> list[bytes]:
    return [f"# those who may\nviewer {hash_of('a')}\ndesk {hash_of('b')}\n".encode()]


# -- readers -----------------------------------------------------------------------------------


def _read_batch(data: bytes) -> None:
    header = check_batch(data)
    assert len(data) <= WHOLE_BATCH_BYTES_MAX or not header.is_compressed
    payloads, attributes = read_messages(data, header)
    assert len(payloads) == header.last - header.first + 1
    assert attributes is None or len(attributes) == len(payloads)
    body = body_of(data, header)
    assert len(body.read_times(header.timestamp_ns)) == len(payloads)
    list(body.read_every_attributes())
    assert check_batch(plain(data, header)).last == header.last


def _read_fragments(data: bytes) -> None:
    assembly = Assembly("in a test")
    for at in range(0, len(data), FRAGMENT_BYTES):
        assembly.take(at, len(data), data[at : at + FRAGMENT_BYTES])
    if assembly.is_whole:
        assembly.batch().message()


def _read_filter(data: bytes) -> None:
    chosen = Filter(data.decode())
    for frame in batches()[:2]:
        header = check_batch(frame)
        body = body_of(frame, header)
        passing(chosen, header, body.read_payloads(), body, header.first, header.last)


def _read_select(data: bytes) -> None:
    projection = Projection(data.decode())
    for document in _DOCUMENTS:
        left = projection.of(document)
        if document[:1] == b"{":
            json.loads(left)


def _read_document(form: PayloadFormat, data: bytes) -> None:
    keying = Keying(["customer.name", "tags[0]"], Missing.NULL, None, form)
    frame = encode_batch(ORDERS, 1, 0, [data], 5)
    header = check_batch(frame)
    body = body_of(frame, header)
    payloads = body.read_payloads()
    for text in _FILTERS:
        passing(Filter(text), header, payloads, body, 0, 0, form)
    keying.keys_of(header, payloads, body, 0, 0)
    for fields in ("-name, -tags", "customer, deep[0]"):
        left = Projection(fields).of(data, form)
        assert len(left) <= len(data)
        assert type(document_of(left, form)) is type(document_of(data, form))


def _read_attributes(data: bytes) -> None:
    attributes = decode_attributes(data)
    assert decode_attributes(encode_attributes(attributes)) == attributes


def _read_place(data: bytes) -> None:
    text = data.decode()
    for parse in (Position.parse, Bookmark.parse, SourceName.parse):
        try:
            found = parse(text)
        except QuorateError:
            continue
        assert parse(str(found)) == found


def _read_address(data: bytes) -> None:
    text = data.decode()
    for parse in (parse_stores, parse_group, normal_address):
        try:
            parse(text)
        except QuorateError:
            continue


def _read_wire(kind: type[Message], data: bytes) -> None:
    """Read every part of a message that has a type of its own."""
    for message in _parts(kind.FromString(data)):
        for name, read in _OF_FIELDS.items():
            if (value := getattr(message, name, None)) is not None:
                _refused(read, value)
        if isinstance(message, v1.Failure):
            str(failure_from_wire(message, "127.0.0.1:1"))


def _read_answers(data: bytes) -> None:
    response = v1.FetchResponse.FromString(data)
    kinds = [each.WhichOneof("kind") for each in response.answers]
    has_first = bool(kinds) and kinds[0] in ("fetched", "missing")
    first = getattr(response.answers[0], str(kinds[0])).first if has_first else 0
    reading = AnswerReading("127.0.0.1:1", ORDERS, Range(max(first, 0), max(first, 0) + 100))
    for answer in reading.answers(response):
        joined(answer)


def _parts(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is None or hasattr(value, "items"):
            continue
        for each in value if hasattr(value, "extend") else (value,):
            yield from _parts(each)


def _refused(read: Callable[[Any], object], value: Any) -> None:
    with suppress(*REFUSALS):
        read(value)


_OF_FIELDS: dict[str, Callable[[Any], object]] = {
    "lineage": lineage_from_wire,
    "membership": membership_from_wire,
    "held": lambda value: not isinstance(value, int) and held_from_wire(value),
    "markers": markers_from_wire,
    "information": pacing_from_wire,
    "position": lambda value: isinstance(value, Message) and position_from_wire(value),  # type: ignore[arg-type]
    "batch": lambda value: isinstance(value, bytes) and check_batch(value),
}


def _from_file(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    """Return what writes an input into a file, and has it read."""

    def of(data: bytes) -> object:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        return read(path)

    return of


def _segments() -> list[bytes]:
    """Return the segments of a publish store."""
    with tempfile.TemporaryDirectory() as directory:
        store = FilePublishStore(directory)
        store.open()
        store.claim(ORDERS)
        store.goes_on(0, ())
        attributes = [checked_attributes(b"a"), checked_attributes(), checked_attributes()]
        store.keep_all(0, [b"one", b"two", b"three"], attributes, [5, 6, 7])
        store.close()
        return [path.read_bytes() for path in Path(directory).glob("*.segment")]


def _reopened(path: Path) -> None:
    """Open a publish store that has a segment."""
    directory = path.parent
    for each in directory.iterdir():
        if each != path:
            each.unlink()
    store = FilePublishStore(directory)
    path.rename(directory / "0.kept")
    store.open()
    store.claim(ORDERS)
    store.close()
    (directory / "0.kept").rename(path)
    store = FilePublishStore(directory)
    store.open()
    store.close()


def targets(directory: Path) -> dict[str, Target]:
    """Return every target by its name. directory: for files that are read."""
    found = {
        "batch": Target(batches, _read_batch, _batch),
        "fragments": Target(lambda: [large_batch()], _read_fragments, _beginning),
        "filter": Target(_encoded(*_FILTERS), _as_text(_read_filter), _text),
        "select": Target(
            _encoded("a, b.c, tags[0]", "-name, -deep"), _as_text(_read_select), _text
        ),
        "order": Target(
            _encoded("a", "-b.c", "$sequence"), _as_text(lambda d: Ordering([d.decode()])), _text
        ),
        "document": Target(lambda: _DOCUMENTS, partial(_read_document, PayloadFormat.JSON), _data),
        "packed document": Target(
            lambda: _PACKED, partial(_read_document, PayloadFormat.MSGPACK), _data
        ),
        "pattern": Target(
            _encoded("orders.*", "(a|b)+[x-z]{2,3}\\.c", ".*"),
            _as_text(lambda data: topic_pattern(data.decode()).matches("orders.a" * 20)),
            _text,
        ),
        "attributes": Target(
            lambda: [encode_attributes(checked_attributes(b"a", {"b": b"c"}, expires_ns=5))],
            _read_attributes,
            _data,
        ),
        "place": Target(
            _encoded("orders/0x1@7:3836", '["orders/0x1@7:3836", "a/2@0:-1"]', "orders/16"),
            _as_text(_read_place),
            _text,
        ),
        "address": Target(
            _encoded("a=127.0.0.1:1,b=[::1]:2", "g:quorum=a=host:1,b=host:2", "host:7301"),
            _as_text(_read_address),
            _text,
        ),
        "layout": Target(_encoded(_CLIENT_TOML), _as_text(lambda d: read_toml(d.decode())), _text),
        "client settings": Target(
            _encoded(_CLIENT_TOML), _from_file(directory / "client.toml", read_file), _text
        ),
        "store settings": Target(
            _encoded(_STORE_TOML), _from_file(directory / "store.toml", load), _text
        ),
        "tokens": Target(
            _tokens, _from_file(directory / "tokens", lambda path: read_tokens(str(path))), _text
        ),
        "FORMAT": Target(
            _encoded(json.dumps({"format": FORMAT, "store": "a"})),
            _from_file(directory / "data/FORMAT", lambda path: read_identity(path.parent)),
            _text,
        ),
        "running": Target(
            _encoded('{"boot": "x", "durability": "os", "topics": [["a.*", "memory"]]}'),
            _from_file(directory / "data/running", lambda path: left_over(path.parent)),
            _text,
        ),
        "publish store": Target(
            cache(_segments), _from_file(directory / "published/1.segment", _reopened), _beginning
        ),
        "answers": Target(
            partial(corpus.inputs, "FetchResponse"), _read_answers, _message(v1.FetchResponse)
        ),
    }
    for name, (seed, unpack) in records.RECORDS.items():
        found[f"record {name}"] = Target(lambda seed=seed: [seed], unpack, _data)  # type: ignore[misc]
    for name, kind in corpus.kinds().items():
        if corpus.inputs(name):
            found[f"message {name}"] = Target(
                partial(corpus.inputs, name), partial(_read_wire, kind), _message(kind)
            )
    return found


def _as_text(read: Callable[[bytes], object]) -> Callable[[bytes], object]:
    """Return a reader of text. protobuf and TOML refuse what is no text."""

    def of(data: bytes) -> object:
        try:
            data.decode()
        except UnicodeDecodeError:
            return None
        return read(data)

    return of
