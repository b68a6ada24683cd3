"""A run of the demo: start the processes, follow them, kill as planned, wait, and verify."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quorate.console.demo.board import Board, ReceiverState, StoreState
from quorate.console.demo.facts import Facts, Kill
from quorate.console.demo.faults import Act, Fault, Plan
from quorate.console.demo.processes import SOURCE_SESSION_ID, Processes, ReceiverChild
from quorate.console.demo.verdict import RunVerdict
from quorate.console.demo.verify import verify
from quorate.console.demo.view import DemoView
from quorate.console.group.children import (
    Child,
    StoreChild,
    founded,
)
from quorate.console.group.rules.source_status import held_upto, name_of
from quorate.console.group.status import ask_all
from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import parse_stores
from quorate.v1.store_pb2 import StatusResponse

_REFRESH_SECONDS = 0.1
_POLL_SECONDS = 0.5
_STATUS_SECONDS_MAX = 2.0
_SETTLE_SECONDS_MAX = 45.0
"""Seconds in which receivers and stores must have all messages after the source has ended."""
_STALL_SECONDS_MAX = 45.0
"""Seconds that the stream may stand still. A source starts and registers in less."""

_BAD, _GOOD = "bold red", "green"


@dataclass(slots=True)
class _Failed(Exception):
    """The run cannot go on. The complaint is noted."""


class Demo:
    """One run, in one directory."""

    def __init__(
        self, directory: Path, input_path: Path | None, rate: float | None, plan: Plan
    ) -> None:
        self._directory = directory
        self._input = str(input_path.resolve()) if input_path else None
        self._rate = rate
        self._plan = plan
        self._processes = Processes(directory)
        self.board = Board(
            receivers={name: ReceiverState() for name in self._processes.receivers},
            stores={name: StoreState() for name in self._processes.stores},
        )
        self._facts = Facts(
            self._input,
            SOURCE_SESSION_ID,
            list(self._processes.receivers),
            list(self._processes.stores),
            plan.victims,
        )
        self._progress = asyncio.Event()
        self._source_done = asyncio.Event()
        self._failed = asyncio.Event()
        self._expected_ends: set[int] = set()
        """The IDs of processes that the demo ends itself."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> RunVerdict:
        """Run the demo and return the verdict. Raises QuorateError if a store does not start."""
        with DemoView(self.board) as view:
            refreshing = asyncio.create_task(self._refresh(view))
            try:
                with suppress(_Failed):
                    await self._start()
                    await self._stream()
                    await self._settle()
                await self._stop()
                return await self._verify()
            finally:
                await self._end_everything()
                refreshing.cancel()

    # Starting

    async def _start(self) -> None:
        await asyncio.gather(*map(self._start_store, self._processes.stores))
        await founded(tuple(self._processes.stores.values()))
        self.board.note(f"three stores with fsync are up: {self._processes.addresses}")
        for receiver in self._processes.receivers.values():
            await self._start_receiver(receiver)
        await self._start_source()
        self._background(self._watch_stores())

    async def _start_store(self, name: str) -> None:
        child, state = self._processes.stores[name], self.board.stores[name]
        state.state = "starting"
        await child.start()
        state.state, state.pid, state.address = "up", child.pid, child.address
        self._background(self._notice_end(child))

    async def _start_receiver(self, child: ReceiverChild) -> None:
        await child.start(self._processes.addresses)
        state = self.board.receivers[child.name]
        state.pid, state.state, state.messages = child.pid, "starting", 0
        self._background(self._hear(child, lambda said: _hear_receiver(state, said)))

    async def _start_source(self) -> None:
        child = self._processes.source
        self.board.source_state = "starting"
        await child.start(self._processes.addresses, self._input, self._rate, self._plan.share_max)
        self.board.source_pid = child.pid
        self._background(self._hear(child, self._hear_source))

    def _background(self, coroutine: Any) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Hearing

    async def _hear(self, child: Child, take: Callable[[Mapping[str, Any]], None]) -> None:
        async for said in child.said():
            if said["kind"] == "event":
                self.board.note(f"{child.name}: {said['text']}", "dim")
            else:
                take(said)
        await self._notice_end(child)

    async def _notice_end(self, child: Child) -> None:
        pid = child.pid
        code = await child.wait()
        if pid not in self._expected_ends and code:
            self._complain(
                f"{child.name} ended by itself with exit code {code}: {child.last_words()}"
            )
            self._failed.set()

    def _hear_source(self, said: Mapping[str, Any]) -> None:
        match said["kind"]:
            case "reading":
                self.board.source_state = "reading the input"
            case "input":
                self.board.source_state = "registering"
                self.board.totals = said["totals"]
            case "open":
                self.board.source_state = "up"
                if any(said["next"].values()):
                    going_on = ", ".join(f"{topic} {n:,}" for topic, n in said["next"].items())
                    self.board.note(f"source goes on at {going_on}", _GOOD)
            case "progress":
                self.board.sent, self.board.stable = said["sent"], said["stable"]
                self._progress.set()
            case "done":
                self.board.source_state = "done"
                self._source_done.set()
                self._progress.set()

    def _complain(self, text: str) -> None:
        self._facts.complaints.append(text)
        self.board.note(text, _BAD)

    # The storm

    async def _stream(self) -> None:
        """Wait until the source is done, and do the planned faults meanwhile."""
        self.board.phase = "streaming"
        storm = asyncio.create_task(self._storm())
        try:
            await self._until(
                lambda: self._source_done.is_set(),
                _STALL_SECONDS_MAX,
                "the stream stood still",
                lambda: sum(self.board.stable.values()),
            )
            await storm
            if self._failed.is_set():
                raise _Failed
        finally:
            storm.cancel()

    async def _storm(self) -> None:
        """Do each fault when it is due. An error becomes a complaint."""
        try:
            while self._plan.left and not self._source_done.is_set():
                await self._progress.wait()
                self._progress.clear()
                while not self._source_done.is_set() and (
                    fault := self._plan.due(self.board.share_stable)
                ):
                    await self._do(fault)
                    self._processes.source.publish_to(self._plan.share_max)
            await self._clear_up()
        except QuorateError as error:
            self._complain(str(error))
            self._failed.set()

    async def _clear_up(self) -> None:
        """Start the processes that are down, and complain of kills that were missed."""
        spared: set[str] = set()
        for fault in self._plan.left:
            if fault.act is Act.KILL:
                self._complain(f"the stream was over before {fault.victim} was killed")
                spared.add(fault.victim)
            elif fault.victim not in spared:
                await self._do(fault)

    async def _do(self, fault: Fault) -> None:
        if fault.act is Act.KILL:
            await self._kill(self._child(fault.victim))
        elif fault.victim == "source":
            await self._start_source()
            self.board.note("source is started again, with its publish store", _GOOD)
        elif fault.victim in self._processes.receivers:
            await self._start_receiver(self._processes.receivers[fault.victim])
            self.board.note(f"{fault.victim} is started again", _GOOD)
        else:
            await self._start_store(fault.victim)
            self.board.note(f"{fault.victim} is started again and up", _GOOD)

    def _child(self, name: str) -> Child:
        everyone = {child.name: child for child in self._processes}
        return everyone[name]

    async def _kill(self, child: Child) -> None:
        self._expected_ends.add(child.pid)
        kill = Kill(
            child.name,
            child.pid,
            getattr(child, "run", 0),
            sum(self.board.sent.values()),
            sum(self.board.stable.values()),
            time.time_ns(),
        )
        await child.kill()
        kill.time_ns = time.time_ns()
        self.board.note(
            f"kill -9 {child.name} (process {child.pid}) at {self.board.share_stable:.0%}", _BAD
        )
        if child.name in self.board.receivers:
            self.board.receivers[child.name].state = "killed"
        elif child.name in self.board.stores:
            self.board.stores[child.name].state = "killed"
        else:
            self.board.source_state = "killed"
        await self._note_positions(kill)
        self._facts.kills.append(kill)

    async def _note_positions(self, kill: Kill) -> None:
        """Note the stores' positions, which bound the messages that may be handed over twice."""
        session_id = getattr(self._child(kill.victim), "session_id", None)
        for answer in (await self._ask()).values():
            for source in answer.sources:
                topic = name_of(source).topic
                kill.stable_upto[topic] = max(kill.stable_upto.get(topic, -1), source.stable_upto)
                for receiver in source.receivers:
                    if receiver.session_id == session_id:
                        upto = receiver.acknowledged_upto
                        kill.acknowledged[topic] = min(kill.acknowledged.get(topic, upto), upto)

    # Watching the stores

    async def _ask(self) -> dict[str, StatusResponse]:
        """Return the status of the stores that answer, by name."""
        answers = await ask_all(parse_stores(self._processes.addresses), _STATUS_SECONDS_MAX)
        return {
            store.name: answer
            for store, answer in answers.items()
            if not isinstance(answer, QuorateError)
        }

    async def _watch_stores(self) -> None:
        while True:
            self._show_stores(await self._ask())
            await asyncio.sleep(_POLL_SECONDS)

    def _show_stores(self, answers: Mapping[str, StatusResponse]) -> None:
        for name, answer in answers.items():
            state = self.board.stores[name]
            state.messages = answer.messages
            state.holes = sum(len(source.holes) for source in answer.sources)
            held = {name_of(source).topic: held_upto(source) for source in answer.sources}
            state.lag = sum(
                max(0, stable - 1 - held.get(topic, -1))
                for topic, stable in self.board.stable.items()
            )

    # The end

    async def _settle(self) -> None:
        """Wait until receivers and stores have all messages, then close the receivers."""
        self.board.phase = "settling"
        self.board.note("all messages are published and stable", _GOOD)
        await self._until(self.board.all_handed, _SETTLE_SECONDS_MAX, "receivers lag")
        self.board.note("both receivers were handed the last message of every topic", _GOOD)
        await self._until_stores_complete()
        for receiver in self._processes.receivers.values():
            code = await receiver.finish()
            self.board.receivers[receiver.name].state = "done"
            if code:
                self._complain(f"{receiver.name} did not close cleanly: {receiver.last_words()}")
        await self._check_acknowledged()

    async def _until_stores_complete(self) -> None:
        deadline = time.monotonic() + _SETTLE_SECONDS_MAX
        while lacking := self._lacking(await self._ask()):
            self.board.lacking = lacking
            if time.monotonic() > deadline:
                self._complain(f"not every store has all messages: {', '.join(lacking)}")
                raise _Failed
            await asyncio.sleep(_REFRESH_SECONDS)
        self.board.lacking = []
        self.board.note("all three stores have all messages", _GOOD)

    def _lacking(self, answers: Mapping[str, StatusResponse]) -> list[str]:
        lacking = [name for name in self._processes.stores if name not in answers]
        for name, answer in answers.items():
            upto = {name_of(s).topic: held_upto(s) for s in answer.sources if not s.holes}
            lacking += [
                f"{name} {topic}"
                for topic, total in self.board.totals.items()
                if upto.get(topic, -1) < total - 1
            ]
        return lacking

    async def _check_acknowledged(self) -> None:
        """Complain unless a quorum knows that each receiver acknowledged every message."""
        answers = await self._ask()
        self._show_stores(answers)
        for child in self._processes.receivers.values():
            for topic, total in self.board.totals.items():
                stores = sum(
                    receiver.acknowledged_upto == total - 1
                    for answer in answers.values()
                    for source in answer.sources
                    if name_of(source).topic == topic
                    for receiver in source.receivers
                    if receiver.session_id == child.session_id
                )
                if stores < len(self._processes.stores) // 2 + 1:
                    self._complain(
                        f"only {stores} stores know that {child.name} acknowledged all of {topic}"
                    )

    async def _until(
        self,
        reached: Callable[[], bool],
        seconds: float,
        what: str,
        progress: Callable[[], int] = lambda: 0,
    ) -> None:
        """Wait until `reached`.

        Raises _Failed after this many seconds without progress, or if a process has failed.
        """
        last, since = progress(), time.monotonic()
        while not reached():
            if self._failed.is_set():
                raise _Failed
            if progress() != last:
                last, since = progress(), time.monotonic()
            elif time.monotonic() - since > seconds:
                self._complain(f"{what} for {seconds:.0f} s")
                raise _Failed
            await asyncio.sleep(_REFRESH_SECONDS)

    async def _stop(self) -> None:
        """Stop the stores cleanly, so that their disks can be read."""
        self.board.phase = "stopping the stores"
        self._expected_ends.update(child.pid for child in self._processes)
        for child in (self._processes.source, *self._processes.receivers.values()):
            if child.running:
                await child.kill()
        await asyncio.gather(*map(self._stop_store, self._processes.stores.values()))

    async def _stop_store(self, store: StoreChild) -> None:
        if store.running and await store.stop():
            self._complain(f"{store.name} did not stop cleanly: {store.last_words()}")
        self.board.stores[store.name].state = "done"

    async def _verify(self) -> RunVerdict:
        self.board.phase = "verifying"
        self._facts.save(self._directory)
        loop = asyncio.get_running_loop()

        def tell(part: str) -> None:
            loop.call_soon_threadsafe(self.board.verified.append, part)

        verdict = await asyncio.to_thread(verify, self._directory, tell)
        self.board.phase = "verified"
        return verdict

    async def _end_everything(self) -> None:
        """End every process that still runs."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        # One of them may be starting a process: it must be over before the event loop is.
        await asyncio.gather(*tasks, return_exceptions=True)
        self._expected_ends.update(child.pid for child in self._processes)
        await asyncio.gather(*(child.kill() for child in self._processes if child.running))

    async def _refresh(self, view: DemoView) -> None:
        while True:
            self.board.measure()
            view.refresh()
            await asyncio.sleep(_REFRESH_SECONDS)


def _hear_receiver(state: ReceiverState, said: Mapping[str, Any]) -> None:
    match said["kind"]:
        case "open":
            state.state = "up"
        case "progress":
            state.state = "up"
            # A new life begins at the last acknowledgement. Earlier messages still count.
            for topic, upto in said["handed"].items():
                state.handed[topic] = max(upto, state.handed.get(topic, 0))
            state.messages, state.retransmitted = said["messages"], said["retransmitted"]
