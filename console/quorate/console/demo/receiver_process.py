"""The demo's receiver process: it records each batch before the batch is acknowledged."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from quorate.console.demo.part import every, main, say, tell_events, until_stdin_ends
from quorate.console.demo.records import digest, record_line, run_file
from quorate.console.ui.output import event_text
from quorate.receiver import Receiver
from quorate.receiver.events import Gap, RegistrationComplete, Stalled, Withdrawn

_REPORT_SECONDS = 0.1


class HandedCounts:
    """The counts for the demo's table. The verdict is made from the records alone."""

    def __init__(self) -> None:
        self.upto: Counter[str] = Counter()
        self.messages = 0
        self.retransmitted = 0

    def report(self) -> None:
        """Report the counts to the demo."""
        say(
            "progress",
            handed=self.upto,
            messages=self.messages,
            retransmitted=self.retransmitted,
        )


async def run(orders: Mapping[str, Any]) -> None:
    """Receive until the demo closes stdin."""
    handed = HandedCounts()
    path = run_file(Path(orders["directory"]), orders["name"], orders["run"])
    with path.open("x") as file:
        async with await Receiver.open(
            topic_pattern=orders["pattern"],
            session_id=orders["session_id"],
            stores=orders["stores"],
            acknowledge="automatic",
        ) as receiver:
            say("open")
            background = [
                asyncio.create_task(every(_REPORT_SECONDS, handed.report)),
                asyncio.create_task(tell_events(receiver.events(), sentence)),
            ]
            receiving = asyncio.create_task(_record(receiver, file, handed))
            ending = asyncio.create_task(until_stdin_ends())
            await asyncio.wait({receiving, ending}, return_when=asyncio.FIRST_COMPLETED)
            for task in (*background, receiving):
                task.cancel()
            await asyncio.gather(receiving, return_exceptions=True)
            if not receiving.cancelled():
                receiving.result()
    handed.report()
    say("done")


def sentence(event: Any) -> str | None:
    """Return a sentence about an event for people; None for events of no interest."""
    match event:
        case RegistrationComplete():
            return f"begins {event.source.topic} at {event.first_sequence:,}"
        case Gap() | Stalled() | Withdrawn():
            return event_text(event)
        case _:
            return None


async def _record(receiver: Receiver, file: TextIO, handed: HandedCounts) -> None:
    # Taking the next batch acknowledges the one before, which is in the file by then.
    async for batch in receiver.batches():
        now = time.time_ns()
        file.writelines(
            record_line(
                batch.source.topic,
                batch.source.session_id,
                sequence,
                batch.epoch,
                batch.retransmitted,
                now,
                digest(payload),
            )
            for sequence, payload in enumerate(batch.payloads, batch.first)
        )
        file.flush()
        handed.upto[batch.source.topic] = batch.last + 1
        handed.messages += len(batch.payloads)
        handed.retransmitted += len(batch.payloads) if batch.retransmitted else 0


if __name__ == "__main__":
    main(run)
