"""The queues of a group, asked of its stores."""

from __future__ import annotations

from collections.abc import Sequence

from quorate.console.group.asking import answers_of
from quorate.console.group.channels import open_channel
from quorate.console.group.rules.queue_reports import Answers
from quorate.protocol.errors import UnknownQueue
from quorate.protocol.identity import StoreAddress
from quorate.transport.failures import errors_of_queues
from quorate.v1.queue_pb2 import QueueStatus, ShowQueuesRequest, ShowQueuesResponse
from quorate.v1.queue_pb2_grpc import QueueStub


async def ask_all(stores: Sequence[StoreAddress], queue: str, timeout: float) -> Answers:
    """Return the report of each store, or the error in its place. queue: empty: all of them.

    A store that dispatches no queues reports none.
    """

    async def one(store: StoreAddress) -> Sequence[QueueStatus]:
        request = ShowQueuesRequest(queue=queue)
        async with open_channel(store.address) as channel:
            try:
                with errors_of_queues(store, queue):
                    response: ShowQueuesResponse = await QueueStub(channel).ShowQueues(
                        request, timeout=timeout
                    )
            except UnknownQueue:
                if queue:
                    raise
                return ()
        return list(response.queues)

    return await answers_of(stores, one)


async def ask_unless(topic_pattern: str, stores: Sequence[StoreAddress], timeout: float) -> Answers:
    """Return the report of each store on all queues; none if topics are selected.

    A person with a right to some topics alone may not ask for all queues.
    """
    return {} if topic_pattern else await ask_all(stores, "", timeout)
