"""Traces of OpenTelemetry: a publish, what receivers do with it, and jobs, in one trace."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import trace
from tests import seams
from tests.store.support import running
from tests.traces import Traces

from quorate.client import connect, connect_blocking
from quorate.errors import InvalidArgument, NotYetStable
from quorate.protocol.identity import SourceName
from quorate.receiver.options import AcknowledgeMode
from quorate.receiver.traced import Spans, TracedMessage
from quorate.store.node import StoreNode
from quorate.transport.tracing import Tracing

ORDERS = SourceName("orders", 7)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[StoreNode]:
    async with running(tmp_path, peers=()) as node:
        yield node


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> Traces:
    return Traces(monkeypatch)


async def test_a_message_is_one_trace_from_publish_to_acknowledge(
    node: StoreNode, traces: Traces
) -> None:
    async with (
        connect(f"s1={node.address}", tracing=True) as quorate,
        quorate.source("orders", session_id=7) as source,
        quorate.receiver("orders", acknowledge="explicit") as receiver,
    ):
        await source.publish(b"one", properties={"region": b"eu"})
        (published,) = traces.named("publish orders")
        assert published.kind is trace.SpanKind.PRODUCER
        assert published.attributes is not None
        assert published.attributes["quorate.sequence"] == 0
        assert published.attributes["quorate.stores"] == ("s1",)
        assert published.attributes["messaging.destination.name"] == "orders"

        message = await anext(aiter(receiver))
        assert isinstance(message, TracedMessage)
        assert message.properties["region"] == b"eu"
        assert not traces.named("receive orders")
        message.acknowledge()
        (received,) = traces.named("receive orders")
    assert traces.is_child(received, published)
    assert published.context is not None
    assert traces.outcomes("receive orders") == ["acknowledged"]
    traceparent = message.properties["traceparent"].decode()
    assert traceparent.split("-")[1] == f"{published.context.trace_id:032x}"


async def test_taking_the_next_message_ends_the_span_of_the_last_one(
    node: StoreNode, traces: Traces
) -> None:
    async with (
        connect(f"s1={node.address}", tracing=True) as quorate,
        quorate.source("orders") as source,
        quorate.receiver("orders") as receiver,
    ):
        for number in range(3):
            await source.publish(b"%d" % number)
        assert await receiver.receive(timeout=30) is not None
        assert not traces.named("receive orders")
        assert await receiver.receive(timeout=30) is not None
        assert len(traces.named("receive orders")) == 1
        async for _ in receiver:
            break
    assert traces.outcomes("receive orders") == ["acknowledged", "acknowledged", "closed"]


async def test_a_publish_that_fails_is_an_error_of_its_span(
    node: StoreNode, traces: Traces
) -> None:
    async with (
        connect(f"s1={node.address}", tracing=True) as quorate,
        quorate.source("orders") as source,
    ):
        with pytest.raises(NotYetStable):
            await source.publish(b"one", timeout=0.0)
        (published,) = traces.named("publish orders")
        assert published.status.status_code is trace.StatusCode.ERROR


async def test_without_tracing_nothing_is_made_and_nothing_travels(
    node: StoreNode, traces: Traces
) -> None:
    async with (
        connect(f"s1={node.address}") as quorate,
        quorate.source("orders") as source,
        quorate.receiver("orders") as receiver,
    ):
        await source.publish(b"one")
        message = await anext(aiter(receiver))
        assert type(message).__name__ == "Message"
        assert message.properties == {}
    assert not traces.spans


def test_a_trace_that_no_sender_began_begins_at_the_receiver(
    traces: Traces,
) -> None:
    Tracing().processing("job", ORDERS, 1, {"traceparent": b"\xff nonsense"}).end("done")
    (span,) = traces.spans
    assert span.parent is None
    assert (span.name, span.kind) == ("job orders", trace.SpanKind.CONSUMER)


def test_without_opentelemetry_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(InvalidArgument, match="with the extra `otel`"):
        connect("s1=127.0.0.1:1", tracing=True)


def through_threads(stores: str) -> None:
    with (
        connect_blocking(stores, tracing=True) as quorate,
        quorate.source("orders") as source,
        quorate.receiver("orders", acknowledge="explicit") as receiver,
    ):
        for number in range(3):
            source.publish(b"%d" % number)
        first = receiver.receive(timeout=30)
        assert first is not None
        first.nack(600.0)
        messages = iter(receiver)
        next(messages).handle().acknowledge()
        next(messages)


async def test_without_asyncio_it_is_the_same(node: StoreNode, traces: Traces) -> None:
    await asyncio.to_thread(through_threads, f"s1={node.address}")
    assert traces.outcomes("receive orders") == ["acknowledged", "closed", "nacked"]
    assert len(traces.named("publish orders")) == 3
    assert len({each.context.trace_id for each in traces.spans if each.context}) == 3


async def test_all_before_ends_all_spans_and_too_many_end_the_oldest(
    traces: Traces, monkeypatch: pytest.MonkeyPatch
) -> None:
    seams.TRACED_OPEN_MAX.replace(monkeypatch, 3)
    spans = Spans(Tracing(), AcknowledgeMode.EXPLICIT)
    for number in range(4):
        message: Any = SimpleNamespace(
            batch=None, source=ORDERS, sequence=number, payload=b"", properties={}
        )
        spans.hand_over(message)
    assert traces.outcomes("receive orders") == ["forgotten"]
    spans.end(ORDERS, 2, "acknowledged", all_before=True)
    assert traces.outcomes("receive orders") == ["acknowledged", "acknowledged", "forgotten"]
