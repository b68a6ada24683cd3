"""The spans of a test, kept in memory."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Traces:
    """The spans that ended since the test began."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Give the test a provider of its own, for the clients that it makes from now on."""
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        return [each for each in self.spans if each.name == name]

    def outcomes(self, name: str) -> list[str]:
        """Return what became of these spans, in the order of the words."""
        return sorted(str((each.attributes or {})["quorate.outcome"]) for each in self.named(name))

    def is_child(self, child: ReadableSpan, parent: ReadableSpan) -> bool:
        assert child.parent is not None
        assert parent.context is not None
        return (child.parent.span_id, child.parent.trace_id) == (
            parent.context.span_id,
            parent.context.trace_id,
        )
