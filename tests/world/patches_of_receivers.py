"""Guards of receivers and of what stores tell them that are taken out.

Production knows nothing of it. `guards` has the worlds in which each is missed.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from tests import seams

from quorate.protocol.answers import AnswerPacking
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.ranges import Range
from quorate.receiver.protocol.fetch_plan import (
    Answer,
    FetchPlan,
    ProvenGap,
)
from quorate.store.rules.receivers import Receivers
from quorate.v1 import messages_pb2 as v1

_real_register = seams.RECEIVERS_REGISTER.real()


def one_no_is_a_gap(to: pytest.MonkeyPatch) -> None:
    """A receiver gives up what one store lacks."""

    def gap(self: FetchPlan, _: float) -> ProvenGap | None:
        stream = self._stream
        if stream.behind:
            first = stream.next
            for peer in self._stores.values():
                if (upto := peer.refuses_upto(first)) >= first:
                    return ProvenGap(first, min(upto, stream.missing()[0].last), ())
        return None

    seams.FETCH_PLAN_GAP.replace(to, gap)
    seams.REPAIR_ROUND_SECONDS.replace(to, 2.0)


def unreadable_is_absent(to: pytest.MonkeyPatch) -> None:
    """A store answers of a batch that it can not read that it does not have it."""
    real = seams.STORE_FETCH_PACK_LACKING.real()

    class Packing(AnswerPacking):
        def missing(self, part: Range, why: v1.Lookup, detail: str) -> None:
            absent = v1.LOOKUP_ABSENT if why == v1.LOOKUP_UNKNOWN else why
            super().missing(part, absent, detail)

    def pack_lacking(packing: AnswerPacking, *rest: Any) -> None:
        # What it lacks is said as it is: a store in limbo can not say.
        others: Any = SimpleNamespace(missing=partial(AnswerPacking.missing, packing))
        real(others, *rest)

    seams.ANSWER_PACKING_IN_STORE_FETCH.replace(to, Packing)
    seams.STORE_FETCH_PACK_LACKING.replace(to, pack_lacking)


def unknown_is_a_no(to: pytest.MonkeyPatch) -> None:
    """A receiver takes it for a "no" that a store can not say."""
    answers = seams.RECEIVER_FETCH_ANSWERS
    answers.replace(to, {**answers.real(), v1.LOOKUP_UNKNOWN: Answer.ABSENT})


def nothing_is_held_back(to: pytest.MonkeyPatch) -> None:
    """A receiver that wants what is stable is handed everything."""
    seams.RECEIVER_STREAM_LIMIT.replace(to, lambda _: SEQUENCE_MAX)


def positions_are_made_up(to: pytest.MonkeyPatch) -> None:
    """A store says that a receiver has acknowledged everything."""

    def register(self: Receivers, *arguments: Any, **more: Any) -> Any:
        change = _real_register(self, *arguments, **more)
        high = change.answer.high
        answer = dataclasses.replace(change.answer, acknowledged_upto=high)
        return dataclasses.replace(change, answer=answer)

    seams.RECEIVERS_REGISTER.replace(to, register)
