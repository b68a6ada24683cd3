"""Readmission: carries out what the peers' answers lead to, until the store is out of limbo.

It follows every round of polling. The store may found a group, or find out that it is a copy. Then,
source by source, it takes over what it lacks until it can vouch for the source again. The decisions
are made in quorate.store.rules.store_identity and quorate.store.rules.readmission.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from quorate.protocol.errors import QuorateError
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import RangeSet
from quorate.store.engine import Engine
from quorate.store.rules.accepted_losses import Losses
from quorate.store.rules.peer_knowledge import (
    UNKNOWN,
    Heard,
    PeerAnswer,
)
from quorate.store.rules.peer_wire import knowledge_of
from quorate.store.rules.readmission import (
    Adoption,
    Ask,
    Stay,
    leave,
    may_concern,
    reg_id_of,
)
from quorate.store.rules.source_state import SourceState
from quorate.store.tasks.fetcher import Filler
from quorate.store.tasks.loss_exchange import learn_losses, learn_poison
from quorate.store.tasks.peer_polling import Peers

_log = logging.getLogger("quorate.store.tasks.readmission")

CHECK_SECONDS_MAX = 2.0
"""Seconds that a starting store waits for its peers before it vouches again."""
NO_WAY_OUT = (
    "While they are, nobody knows what is lost: put back a disk that is whole, or have one of "
    "them go on without: `quorate store readmit NAME --reason WHY`"
)
FOUND_OUT_SECONDS = 5.0
"""Seconds that a store waits after it was found to be a copy. Of two running ones each finds out
the other."""


class Vouching:
    """The readmission of one store: decides nothing, but brings it out of limbo, or into it."""

    def __init__(
        self,
        engine: Engine,
        peers: Peers,
        filler: Filler,
        losses: Losses,
        address: str,
        draw: Callable[[], bytes] = lambda: uuid.uuid4().bytes,
    ) -> None:
        """address: the address at which others reach this store. draw: makes a new incarnation."""
        self._engine = engine
        self._filler = filler
        self._losses = losses
        self._core = engine.core
        self._standing = engine.core.standing
        self._peers = peers
        self._address = address
        self._draw = draw
        self._waits_for = engine.waits_for

    async def check(self) -> None:
        """Ask the peers, once and not for long, whether this store's directory was put back.

        A late answer may still show that it was; then the store enters limbo later. `run` does the
        rest.
        """
        if not self._standing.unchecked:
            return
        heard: list[Heard] = []
        try:
            async with asyncio.timeout(CHECK_SECONDS_MAX):
                await self._peers.ask_briefly(heard)
        except TimeoutError:
            _log.info("not every peer of store %s answered in time", self._core.store)
        await self._was_found_out(heard)
        self._standing.unchecked = ""

    async def run(self) -> None:
        """Follow every round of polling, until cancelled."""
        while True:
            await self._peers.next_round()
            try:
                if await self.follow(self._peers.heard()):
                    await asyncio.sleep(FOUND_OUT_SECONDS)
            except QuorateError as error:
                _log.error("store %s stays in limbo: %s", self._core.store, error)
            except Exception:
                _log.exception("leaving limbo failed unexpectedly; the next round tries again")

    async def follow(self, heard: Mapping[str, Heard]) -> bool:
        """Carry out what these answers, by the peers' addresses, lead to.

        Return whether the store was found to be a copy.
        """
        if await self._was_found_out(heard.values()):
            return True
        heard = {address: item for address, item in heard.items() if item.counts}
        standing, writer = self._standing, self._engine.writer
        if founders := standing.founders(self._peers.addresses, heard):
            await writer.durable(writer.submit(standing.found(founders)))
            names = ", ".join(sorted(founder.store_name for founder in founders))
            _log.info("store %s is a founder of a new group: %s", standing.store, names)
        if not self._core.in_limbo:
            return False
        answers = [item.answer for item in heard.values()]
        incarnation = standing.record.incarnation
        for name in self._lacking(answers):
            await self._leave(name, answers)
        if incarnation == standing.record.incarnation and standing.limbo:
            await self._leave_as_a_whole(answers)
        return False

    async def _was_found_out(self, heard: Collection[Heard]) -> bool:
        """Enter limbo if a peer remembers a state that this store cannot have had."""
        before = self._standing.record
        for item in heard:
            if item.answer.remembered is not None:
                self._standing.learn_former(item.answer.remembered)
        for item in heard:
            remembered = item.answer.remembered
            if remembered is None:
                continue
            if reason := self._standing.check_remembered(remembered):
                _log.error("store %s enters limbo: %s", self._core.store, reason)
                self._peers.forget()
                change = self._core.enter_limbo(reason, self._draw())
                self._engine.end_streams(change)
                for source in self._core.sources:
                    self._engine.note(source)
                writer = self._engine.writer
                await writer.durable(writer.submit(change.writes))
                return True
        if self._standing.record is not before:
            self._engine.writer.submit((self._standing.row(),))
        return False

    def _lacking(self, answers: list[PeerAnswer]) -> list[SourceName]:
        """Return the sources for which the store does not vouch yet, going by these answers."""
        known = self._core.sources
        names = {name for name, state in known.items() if state.limbo}
        ended = self._core.identities.ended
        names |= {name for name, each in ended.items() if each.state.limbo}
        if self._standing.limbo:
            store, address = self._core.store, self._address
            names |= {
                name
                for answer in answers
                for name in answer.sources
                if self._core.known(name) is None and may_concern(store, address, name, answers)
            }
        return sorted(names)

    async def _leave(self, name: SourceName, answers: list[PeerAnswer]) -> None:
        outcome = self._may_leave(name, answers)
        if isinstance(outcome, Ask):
            answers = await self._ask_about(name, answers, outcome.addresses)
            if not self._lacks(name):
                return  # it has ended meanwhile, or an operator has ended its limbo
            outcome = self._may_leave(name, answers, outcome.addresses)
        match outcome:
            case Stay(reason):
                self._wait(name, reason)
            case Adoption() as adoption:
                known = (each.knowledge(name) for each in answers)
                theirs = next((each.reg_id for each in known if each.reg_id), 0)
                await self._adopt(name, adoption, self._reg_id(adoption, theirs))

    def _may_leave(
        self, name: SourceName, answers: list[PeerAnswer], asked: Collection[str] = ()
    ) -> Stay | Ask | Adoption:
        state = self._core.known(name)
        own = knowledge_of(state, limbo=True) if state is not None else UNKNOWN
        if name not in self._core.sources and (ended := self._core.identities.ended.get(name)):
            own = replace(own, held=ended.held_by_epoch())
        store, address = self._core.store, self._address
        takes_data = self._core.takes_data(name.topic)
        return leave(store, address, name, own, answers, self._peers.addresses, takes_data, asked)

    async def _ask_about(
        self, name: SourceName, answers: list[PeerAnswer], addresses: Collection[str]
    ) -> list[PeerAnswer]:
        """Return the answers, with newer ones about this source from these addresses.

        A peer at these addresses without a newer answer of its incarnation is left out.
        """
        told = {each.address: each for each in await self._peers.ask_about(name, addresses)}
        return [
            told.get(each.address, each)
            for each in answers
            if each.address not in addresses
            or (each.address in told and told[each.address].incarnation == each.incarnation)
        ]

    def _lacks(self, name: SourceName) -> bool:
        """Return whether the store is in limbo for a source."""
        state = self._core.known(name)
        return bool(state.limbo if state is not None else self._standing.limbo)

    async def _adopt(self, name: SourceName, adoption: Adoption, reg_id: int) -> None:
        engine, core = self._engine, self._core
        if (state := core.known(name)) is not None:
            await engine.settled(state)
            if core.known(name) is not state or not state.limbo:
                return  # it has ended meanwhile, or an operator has ended its limbo
        change = core.take_over(name, adoption, reg_id)
        state = core.known(name)
        assert state is not None
        if set_aside := await engine.made_durable(state, change):
            _log.warning("%d messages of %s were set aside", set_aside, name)
        if name not in core.sources:
            engine.has_ended(name)
            self._waits_for.pop(name, None)
            return
        await self._fetch(state, adoption)
        self._learn_losses(state, adoption)
        await engine.settled(state)
        left = core.leave_limbo(state, adoption)
        if not left.answer:
            rest = adoption.fetch.minus(state.held.ranges)
            self._wait(name, f"{_some(rest)} could not be fetched yet")
            return
        await engine.made_durable(state, left)
        engine.changed(name)
        self._waits_for.pop(name, None)
        _log.info("store %s vouches for %s again, up to %d", core.store, name, adoption.floor)

    def _learn_losses(self, state: SourceState, adoption: Adoption) -> None:
        """Take over accepted losses, before the store vouches for the source.

        A recovery that hears only of the gap would take all messages behind it for never stable.
        """
        if self._core.sources.get(state.name) is not state:
            return
        writes = learn_losses(self._losses, state, adoption.losses, "a peer")
        writes += learn_poison(self._losses, state, adoption.poison)
        if writes:
            self._engine.submit(state, writes)

    def _reg_id(self, adoption: Adoption, theirs: int) -> int:
        """Return the RegID that the source had or wants here, or has at peers, if it is free."""
        mine = reg_id_of(self._core.store, (self._address,), adoption.information)
        return next(filter(self._core.reg_ids.is_free, (mine, theirs)), 0)

    async def _fetch(self, state: SourceState, adoption: Adoption) -> None:
        """Fetch missing messages up to the floor, from the peer that has most of them first."""

        def have(address: str) -> int:
            return adoption.fetch.both(adoption.holders[address]).count()

        for address in sorted(adoption.holders, key=have, reverse=True):
            filled = await self._filler.fill(
                state,
                address,
                adoption.holders[address],
                lambda: adoption.fetch.minus(state.held.ranges),
                adoption.stable_upto,
            )
            if filled.failed is not None:
                _log.info("%s", filled.failed)

    async def _leave_as_a_whole(self, answers: list[PeerAnswer]) -> None:
        standing, writer = self._standing, self._engine.writer
        lacking, addresses = self._lacking(answers), self._peers.addresses
        if not lacking and standing.may_leave(addresses, answers):
            await writer.durable(writer.submit(standing.leave_limbo()))
            self._waits_for.pop(None, None)
            _log.info("store %s is out of limbo", standing.store)
            return
        silent = addresses - {answer.address for answer in answers}
        unsure = {answer.address for answer in answers if answer.limbo}
        if silent:
            self._wait(None, f"these have not answered: {', '.join(sorted(silent))}")
        elif not answers:
            self._wait(None, "no peer is configured that could be asked", logging.WARNING)
        elif unsure and not all(answer.blank for answer in answers):
            reason = f"these are in limbo themselves: {', '.join(sorted(unsure))}"
            self._wait(
                None, f"{reason}; and not all of the group are new. {NO_WAY_OUT}", logging.WARNING
            )
        elif lacking:
            waits_for = self._waits_for.get(lacking[0], "")
            taken_over = f"{lacking[0]} is to be taken over from its peers"
            self._wait(None, f"{taken_over}: {waits_for}" if waits_for else taken_over)

    def _wait(self, name: SourceName | None, reason: str, level: int = logging.INFO) -> None:
        if self._waits_for.get(name) != reason:
            self._waits_for[name] = reason
            what = f"for {name}" if name is not None else "as a whole"
            _log.log(level, "store %s is in limbo %s: %s", self._core.store, what, reason)


def _some(ranges: RangeSet) -> str:
    return ", ".join(map(str, list(ranges)[:5]))
