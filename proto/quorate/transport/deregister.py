"""The client of the call Deregister: telling one store, again and again until it answers.

Which stores are told, for how long, and what their answers mean together, is each caller's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from quorate.protocol.delays import REPEAT
from quorate.protocol.errors import QuorateError
from quorate.transport.delays import retrying
from quorate.transport.epochs import in_steps
from quorate.transport.failures import errors_of
from quorate.v1.store_pb2 import DeregisterRequest, DeregisterResponse

ANSWER_SECONDS_MAX = 3.0


async def deregister_at(
    stub: Any, address: str, request: DeregisterRequest, failed: Callable[[QuorateError], None]
) -> DeregisterResponse | None:
    """Tell the store behind a stub until it answers; return None if it refuses for good.

    failed: is told of each attempt that failed, and why.
    """

    async def tell_epoch(epoch: int) -> DeregisterResponse:
        of_epoch = DeregisterRequest()
        of_epoch.CopyFrom(request)
        of_epoch.epoch = epoch
        with errors_of(address):
            answer: DeregisterResponse = await stub.Deregister(of_epoch, timeout=ANSWER_SECONDS_MAX)
            return answer

    async def tell() -> DeregisterResponse:
        try:
            return await in_steps(request.epoch, tell_epoch)
        except QuorateError as error:
            failed(error)
            raise

    try:
        return await retrying(REPEAT)(tell)
    except QuorateError:
        return None
