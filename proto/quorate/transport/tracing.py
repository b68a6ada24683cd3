"""Traces of OpenTelemetry: the spans of messages, and the context that travels with them.

OpenTelemetry is imported only when an application asks for traces. It needs the extra `otel`. The
names follow OpenTelemetry's conventions for messaging.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from quorate.protocol.errors import InvalidArgument
from quorate.protocol.identity import SourceName

_CONTEXT = ("traceparent", "tracestate")
"""The properties of a message that carry the context: those of W3C Trace Context."""


@dataclass(slots=True)
class Publishing:
    """The span of a message that is sent, until it is stable."""

    properties: Mapping[str, bytes]
    """The properties of the message, with the context of the span."""
    _span: Any

    def is_stable(self, sequence: int, stores: tuple[str, ...]) -> None:
        """Note the number of the message, and the stores that have it."""
        self._span.set_attribute("quorate.sequence", sequence)
        self._span.set_attribute("quorate.stores", stores)


class Processing:
    """The span of a message that an application works on."""

    __slots__ = ("_span",)

    def __init__(self, span: Any) -> None:
        self._span = span

    def end(self, outcome: str) -> None:
        """End the span, once. outcome: what the application said of the message."""
        if self._span.is_recording():
            self._span.set_attribute("quorate.outcome", outcome)
        self._span.end()


class Tracing:
    """The traces of one client."""

    def __init__(self) -> None:
        """Use the provider that the application has set, or sets later.

        Raises InvalidArgument if OpenTelemetry is not installed.
        """
        try:
            from opentelemetry import trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError:
            raise InvalidArgument(
                "tracing", "needs OpenTelemetry; install Quorate with the extra `otel`"
            ) from None
        self._kinds = trace.SpanKind
        self._tracer = trace.get_tracer("quorate")
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def publishing(
        self, source: SourceName, properties: Mapping[str, bytes] | None
    ) -> Iterator[Publishing]:
        """Trace the block, which publishes a message. An error in it is noted."""
        with self._tracer.start_as_current_span(
            f"publish {source.topic}",
            kind=self._kinds.PRODUCER,
            attributes=_attributes("publish", "send", source),
        ) as span:
            context: dict[str, str] = {}
            self._propagator.inject(context)
            carried = {name: value.encode() for name, value in context.items()}
            yield Publishing({**(properties or {}), **carried}, span)

    def processing(
        self, name: str, source: SourceName, sequence: int, properties: Mapping[str, bytes]
    ) -> Processing:
        """Begin the span of a message that is handed over. name: `receive`, or `job`."""
        context = {
            each: properties[each].decode(errors="replace")
            for each in _CONTEXT
            if each in properties
        }
        span = self._tracer.start_span(
            f"{name} {source.topic}",
            context=self._propagator.extract(context),
            kind=self._kinds.CONSUMER,
            attributes={**_attributes(name, "process", source), "quorate.sequence": sequence},
        )
        return Processing(span)


def _attributes(name: str, kind: str, source: SourceName) -> dict[str, str]:
    return {
        "messaging.system": "quorate",
        "messaging.destination.name": source.topic,
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "quorate.session": f"{source.session_id:#x}",
    }
