"""The demo's source process: it publishes the input, and goes on where its predecessor was killed.

A message's place in its topic is its sequence number. So `next_sequence` names the next message to
publish, wherever the process before it was killed. The messages are in a file that the first life
prepares.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from quorate.console.demo.part import every, further_orders, main, say, tell_events
from quorate.console.demo.prepared import Prepared, is_prepared, prepare
from quorate.console.group.sending import send_all
from quorate.console.ui.output import event_text
from quorate.source import FilePublishStore, Source
from quorate.source.events import (
    FlightExceeded,
    NotStable,
    QuorumLost,
    RegistrationComplete,
    SourceFailed,
    StoreCaughtUp,
    StoreUnresponsive,
)

_STEP_SECONDS = 0.02
_REPORT_SECONDS = 0.05
_PATIENCE_SECONDS = 30.0
_RATE_MAX = 16_000.0
_STREAM_SECONDS_MIN = 20.0


class Gate:
    """The end, for now, of the messages that may be published."""

    def __init__(self, messages: int, share: float) -> None:
        """messages: of the whole input. share: the part of them that may be published."""
        self._messages = messages
        self._moved = asyncio.Event()
        self.move(share)

    def move(self, share: float) -> None:
        """Let this share of the messages be published."""
        self._end = math.ceil(self._messages * share)
        self._moved.set()

    async def passes(self, published: int) -> float:
        """Wait until more than this many messages may be published. Return the seconds waited."""
        began = time.monotonic()
        while published >= self._end:
            self._moved.clear()
            await self._moved.wait()
        return time.monotonic() - began


async def run(orders: Mapping[str, Any]) -> None:
    """Publish all messages, wait until they are stable, close."""
    directory = Path(orders["directory"]) / "input"
    if not is_prepared(directory):
        say("reading")
        prepare(directory, Path(orders["input"]) if orders["input"] else None)
    prepared = Prepared(directory)
    totals = prepared.totals
    say("input", totals=totals)
    async with AsyncExitStack() as stack:
        sources = {
            topic: await stack.enter_async_context(await _open(topic, orders)) for topic in totals
        }
        say("open", next={topic: source.next_sequence for topic, source in sources.items()})
        gate = Gate(sum(totals.values()), orders["share_max"])
        background = [
            asyncio.create_task(every(_REPORT_SECONDS, lambda: _report(sources))),
            asyncio.create_task(_obey(gate)),
            *(
                asyncio.create_task(tell_events(source.events(), partial(sentence, topic)))
                for topic, source in sources.items()
            ),
        ]
        rate = orders["rate"] or default_rate(sum(totals.values()))
        await _publish(sources, prepared, rate, gate)
        for source in sources.values():
            await source.flush()
        _report(sources)
        for task in background:
            task.cancel()
    say("done")


async def _open(topic: str, orders: Mapping[str, Any]) -> Source:
    return await Source.open(
        topic,
        session_id=orders["session_id"],
        stores=orders["stores"],
        publish_store=FilePublishStore(Path(orders["directory"]) / "publish" / topic),
    )


async def _obey(gate: Gate) -> None:
    """Move the gate as the demo says, and end with the demo."""
    async for order in further_orders():
        gate.move(order["share_max"])
    raise SystemExit(1)


def sentence(topic: str, event: Any) -> str | None:
    """Return a sentence about an event for people; None for events of no interest."""
    match event:
        case RegistrationComplete():
            missing = f", without {', '.join(event.missing)}" if event.missing else ""
            return (
                f"{topic}: registered in epoch {event.epoch} from {event.first_sequence:,}{missing}"
            )
        case StoreCaughtUp():
            return f"{topic}: {event.store} has caught up, to {event.upto:,}"
        case StoreUnresponsive():
            return f"{topic}: {event.store} does not take the stream; the source tries again"
        case QuorumLost() | NotStable() | SourceFailed() | FlightExceeded():
            return f"{topic}: {event_text(event)}"
        case _:
            return None


def _report(sources: Mapping[str, Source]) -> None:
    say(
        "progress",
        sent={topic: source.next_sequence for topic, source in sources.items()},
        stable={topic: source.stable_upto + 1 for topic, source in sources.items()},
    )


def default_rate(messages: int) -> float:
    """Return the messages a second that two cores carry together with the rest of the demo.

    A short input goes slower, so that the kills hit mid-stream.
    """
    return min(_RATE_MAX, messages / _STREAM_SECONDS_MIN)


async def _publish(
    sources: Mapping[str, Source], prepared: Prepared, rate: float, gate: Gate
) -> None:
    """Publish the remaining messages, at this rate in messages a second, as the gate lets them."""
    begun = {topic: source.next_sequence for topic, source in sources.items()}
    left, before = prepared.remaining(begun), sum(begun.values())
    started, sent = time.monotonic(), 0
    while step := list(islice(left, max(1, round(rate * _STEP_SECONDS)))):
        started += await gate.passes(before + sent)
        by_topic: dict[str, list[bytes]] = {}
        for topic, payload in step:
            by_topic.setdefault(topic, []).append(payload)
        for topic, payloads in by_topic.items():
            await send_all(sources[topic], payloads, _PATIENCE_SECONDS)
        sent += len(step)
        await asyncio.sleep(max(0.0, started + sent / rate - time.monotonic()))


if __name__ == "__main__":
    main(run)
