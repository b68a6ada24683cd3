"""The public names that applications see: the same with asyncio and without."""

from __future__ import annotations

import ast
import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import quorate.client
import quorate.receiver.events
import quorate.source.events
import quorate.subscriber.events
from quorate.client import blocking
from quorate.client.client import Client, connect
from quorate.consumer import Consumer
from quorate.receiver import Receiver
from quorate.source import Source
from quorate.subscriber import State, Subscriber, Watching, blocking_state

LIST = Path(__file__).with_name("public_names.txt")

PAIRS = [
    (Client, blocking.Client),
    (Source, blocking.Source),
    (Receiver, blocking.Receiver),
    (Subscriber, blocking.Subscriber),
    (State, blocking.State),
    (Watching, blocking_state.Watching),
    (Consumer, blocking.Consumer),
]

CLIENT = {"close", "queue", "receiver", "source", "state", "subscriber"}
SOURCE = {
    "close",
    "commit",
    "delete",
    "deregister",
    "epoch",
    "events",
    "flush",
    "marker",
    "name",
    "next_sequence",
    "open",
    "publish",
    "registered",
    "send",
    "send_many",
    "send_nowait",
    "stable_upto",
    "unstable",
    "unstable_bytes",
    "unstable_messages",
    "wait_stable",
}
RECEIVER = {
    "batches",
    "close",
    "deregister",
    "events",
    "flush",
    "known_topics",
    "undecoded",
    "open",
    "position",
    "receive",
    "session_id",
    "sources",
}
SUBSCRIBER = {"batches", "close", "consumed_position", "open", "pause", "position", "resume"}
STATE = {
    "batches",
    "count",
    "delete",
    "delete_where",
    "get",
    "query",
    "query_and_subscribe",
    "sql",
    "topic",
    "watch",
}
WATCHING = {"close", "position"}
CONSUMER = {"close", "flush", "open", "queue"}
WITHOUT_ASYNCIO = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
}
OF_CLIENTS = {"connections", "delays", "live_servers", "on_closed", "tls"}
"""The arguments that only a client gives to a source or receiver."""


def public_names(kind: type) -> set[str]:
    """The public names of a class and those that its methods give to its objects."""
    tree = ast.parse(inspect.getsource(kind))
    assigned = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    names = {*vars(kind), *vars(kind).get("__annotations__", ()), *assigned}
    return {name for name in names if not name.startswith("_")}


def classes() -> dict[str, type]:
    """Every class that applications import for sources, receivers and their events, by name."""
    found: dict[str, type] = {}
    for prefix, module in (
        ("", quorate.client),
        ("source_events.", quorate.client.source_events),
        ("receiver_events.", quorate.client.receiver_events),
        ("replay.", quorate.client.replay),
    ):
        for name in module.__all__:
            if inspect.isclass(value := getattr(module, name)):
                found[prefix + name] = value
    return found


def test_the_names_of_every_class_are_these() -> None:
    """A name in the list is one that applications may use. After a change that is meant, write it
    anew: `python -m tests.client.test_public_names`."""
    assert LIST.read_text().splitlines() == listed()


def listed() -> list[str]:
    """A line for each class, with its public names."""
    return [
        f"{name}: {' '.join(sorted(public_names(kind)))}".strip()
        for name, kind in classes().items()
        if kind not in (Client, Source, Receiver, Subscriber, State, Consumer)
    ]


@pytest.mark.parametrize(
    ("pair", "allowed"),
    list(
        zip(
            PAIRS,
            (CLIENT, SOURCE, RECEIVER, SUBSCRIBER, STATE, WATCHING, CONSUMER),
            strict=True,
        )
    ),
)
def test_these_names_are_public(pair: tuple[type, type], allowed: set[str]) -> None:
    for kind in pair:
        assert public_names(kind) == allowed


def without_asyncio(annotation: str) -> str:
    """The annotation that the blocking twin has for this one."""
    annotation = re.sub(r"Opening\[(\w+)\]", r"\1", annotation)
    annotation = annotation.replace("ReceiverOpening", "Receiver")
    annotation = annotation.replace("ConsumerOpening", "Consumer")
    return annotation.replace("AsyncIterator", "Iterator").replace("asynchronous.", "")


def shape(member: Any) -> Any:
    """The part of a member that must be the same at its twin."""
    if isinstance(member, property):
        assert member.fget is not None
        return "property", shape(member.fget)
    if isinstance(member, classmethod):
        return "classmethod", shape(member.__func__)
    signature = inspect.signature(member)
    parameters = [
        (one.name, one.kind, one.default, without_asyncio(str(one.annotation)))
        for one in signature.parameters.values()
    ]
    return parameters, without_asyncio(str(signature.return_annotation))


@pytest.mark.parametrize("pair", PAIRS)
def test_the_blocking_twin_has_the_same_signatures(pair: tuple[type, type]) -> None:
    asynchronous, twin = pair
    for name, member in vars(asynchronous).items():
        if not name.startswith("_") or name in WITHOUT_ASYNCIO:
            assert shape(vars(twin)[WITHOUT_ASYNCIO.get(name, name)]) == shape(member), name


def test_both_clients_are_made_alike() -> None:
    assert shape(blocking.connect_blocking) == shape(connect)


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        (Source, "source"),
        (Receiver, "receiver"),
        (Subscriber, "subscriber"),
        (Consumer, "queue"),
    ],
)
def test_a_client_opens_with_everything_that_is_not_its_own(kind: Any, method: str) -> None:
    offered = inspect.signature(getattr(Client, method)).parameters
    taken = inspect.signature(kind.open).parameters
    assert offered.keys() - {"self"} == taken.keys() - OF_CLIENTS - {
        "stores",
        "policy",
        "previous_policies",
    }
    for name in offered.keys() - {"self", "timeout"}:
        assert offered[name].default == taken[name].default, name


def test_what_is_exported() -> None:
    for module in (quorate.client, quorate.client.source_events, quorate.client.receiver_events):
        assert module.__all__ == sorted(module.__all__)
        assert all(hasattr(module, name) for name in module.__all__)


def types_shown(kind: type) -> Iterator[tuple[str, str]]:
    """The types of a class's public fields, and of what its public methods take and return."""
    for name, annotation in vars(kind).get("__annotations__", {}).items():
        if not name.startswith("_"):
            yield name, str(annotation)
    for name, member in vars(kind).items():
        is_method = isinstance(member, property | classmethod | types.FunctionType)
        if is_method and not name.startswith("_"):
            yield name, repr(shape(member))


@pytest.mark.parametrize(
    "kind", dict.fromkeys([*classes().values(), *(one for pair in PAIRS for one in pair)])
)
def test_neither_protobuf_nor_a_library_is_seen(kind: type) -> None:
    """A type of the wire, of gRPC or of tenacity is none for applications."""
    for name, annotation in types_shown(kind):
        assert not re.search(r"pb2|\bv1\b|wire|grpc|wait_base|tenacity", annotation), name


def test_every_event_is_exported() -> None:
    for events, exported in (
        (quorate.source.events, quorate.client.source_events),
        (quorate.receiver.events, quorate.client.receiver_events),
        (quorate.subscriber.events, quorate.client.replay),
    ):
        told = {each.__name__ for each in events.Event.__args__}
        assert told <= set(exported.__all__)


if __name__ == "__main__":
    LIST.write_text("\n".join(listed()) + "\n")
