"""A store is told until it answers, or refuses for good."""

from __future__ import annotations

from typing import Any

import pytest
from tests import seams

from quorate.protocol.delays import Delays
from quorate.protocol.errors import Fenced, QuorateError, Unreachable
from quorate.transport.deregister import deregister_at
from quorate.v1.store_pb2 import DeregisterRequest, DeregisterResponse

ANSWER = DeregisterResponse(reg_id=7)


class Stub:
    """A store that answers as scripted."""

    def __init__(self, *script: DeregisterResponse | Exception) -> None:
        self._script = list(script)

    async def Deregister(self, _: DeregisterRequest, timeout: float) -> Any:
        assert timeout > 0
        step = self._script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    seams.REPEAT_IN_DEREGISTER.replace(monkeypatch, Delays(first=0.0))


async def told(*script: DeregisterResponse | Exception) -> tuple[object, list[QuorateError]]:
    failures: list[QuorateError] = []
    stub = Stub(*script)
    return await deregister_at(stub, "a:1", DeregisterRequest(), failures.append), failures


async def test_an_answer_is_returned() -> None:
    assert await told(ANSWER) == (ANSWER, [])


async def test_a_store_that_is_away_is_told_again_until_it_answers() -> None:
    down = Unreachable("a:1", "down")
    answer, failures = await told(down, TimeoutError(), ANSWER)
    assert answer == ANSWER
    assert list(map(str, failures)) == [
        str(down),
        str(Unreachable("a:1", "it did not answer in time")),
    ]


async def test_a_store_that_refuses_for_good_is_told_no_more() -> None:
    fenced = Fenced("orders/0x10", 1, 2)
    assert await told(fenced, ANSWER) == (None, [fenced])
