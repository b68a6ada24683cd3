"""Jobs of a queue in the traces of OpenTelemetry."""

from __future__ import annotations

import pytest
from tests.queue.conftest import CHANGES_OF_DISPATCHER, Start
from tests.traces import Traces

from quorate.client import connect

pytestmark = pytest.mark.expects_log(CHANGES_OF_DISPATCHER)


@pytest.mark.parametrize("said", ["done", "retry", "discard"])
async def test_a_job_is_a_span_until_the_application_says_what_became_of_it(
    start: Start, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    traces = Traces(monkeypatch)
    stores = await start()
    async with (
        connect(stores.named, tracing=True) as quorate,
        quorate.queue("work") as consumer,
        quorate.source("orders") as source,
    ):
        await source.publish(b"one")
        job = await anext(consumer)
        assert job.payload == b"one"
        assert not traces.named("job orders")
        await getattr(job, said)()
        (span,) = traces.named("job orders")
        (published,) = traces.named("publish orders")
    assert traces.outcomes("job orders") == [said]
    assert traces.is_child(span, published)
