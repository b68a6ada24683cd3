"""Queries of the state of the world: any store answers, and another one is asked if it fails.

What a query asks for, and what a row is, is in quorate.subscriber.rows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing

from quorate.protocol.bookmarks import Position
from quorate.protocol.choices import check_function
from quorate.protocol.delays import Delays
from quorate.protocol.errors import (
    Closed,
    InvalidArgument,
    InvalidFilter,
    QuorateError,
    Unreachable,
)
from quorate.protocol.identity import StoreAddress, check_topic
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.protocol.payloads import PayloadFormat
from quorate.protocol.row_parts import RowJoining
from quorate.protocol.timeouts import check_timeout
from quorate.protocol.wire import position_from_wire
from quorate.subscriber.begin import read_time
from quorate.subscriber.io.sql import RowTable, Statement
from quorate.subscriber.items import ReplayedMessage
from quorate.subscriber.protocol.chooser import StoreChooser, Turns
from quorate.subscriber.rows import (
    Answer,
    AsOf,
    AtLeast,
    DeletingSource,
    Key,
    Rows,
    check_deletes,
    check_is_past,
    key_to_wire,
    message_of,
    request_of,
)
from quorate.subscriber.subscriber import Subscriber
from quorate.subscriber.watching import Watching
from quorate.transport.connections import Connections
from quorate.transport.delays import delay
from quorate.transport.failures import errors_of
from quorate.v1 import store_pb2 as store_v1

BATCH_ROWS = 1_000
_SQL_BATCH_ROWS = 10_000
_WAIT_SECONDS = 5.0
"""The longest time in seconds that one store is given to make the rows that are asked for."""
_SILENCE_SECONDS = 10.0
"""Seconds without an answer after which another store is asked. A store at work says something
each second."""

_FINAL = (InvalidArgument, InvalidFilter, Closed)
"""Errors that every store would answer with."""


Select = str | Sequence[str] | None
Subscribe = Callable[[Position, str | None, Select], Awaitable[Subscriber]]
"""Opens a subscription to the topic behind a position, with where and select."""


class State:
    """The state of one topic: its last stable message of each key. Get it from `Client.state`."""

    def __init__(
        self,
        topic: str,
        stores: Sequence[StoreAddress],
        connections: Connections,
        timeout: float | None,
        delays: Delays,
        check_open: Callable[[], None],
        subscribe: Subscribe,
        chooser: StoreChooser,
    ) -> None:
        """Begin unconnected. Applications use `Client.state`. Raises InvalidArgument."""
        check_function("chooser", chooser)
        check_timeout(timeout)
        self._subscribe = subscribe
        self._chooser = chooser
        self._turns = Turns(stores, chooser)
        self._topic = check_topic(topic)
        self._connections = connections
        self._timeout = timeout
        self._delays = delays
        self._check_open = check_open

    @property
    def topic(self) -> str:
        """The topic."""
        return self._topic

    async def get(
        self,
        key: Key,
        *,
        select: str | Sequence[str] | None = None,
        at_least: AtLeast = None,
        as_of: AsOf = None,
    ) -> ReplayedMessage | None:
        """Return the row of a key; None: it has none.

        - key: that of the message, bytes or text. If fields of the payload make the key: their
          value, or a tuple of their values.
        - select, at_least, as_of: as for `query`.
        """
        request = request_of(
            self._topic, select=select, at_least=at_least, as_of_ns=_time_ns(as_of)
        )
        request.keys.append(key_to_wire(key))
        rows = await self._rows(request)
        return rows[0] if rows else None

    async def query(
        self,
        where: str | None = None,
        *,
        order_by: str | Sequence[str] | None = None,
        limit: int | None = None,
        select: str | Sequence[str] | None = None,
        at_least: AtLeast = None,
        as_of: AsOf = None,
    ) -> Rows:
        """Return rows, with the position at which they hold.

        - where: a condition in the words of SQL. Only rows for which it is true are given.
        - order_by: a field, or a list of fields. A - before a field puts its highest values first.
          None: rows come in the order of their keys.
        - limit: the most rows; None: all.
        - select: fields of payloads to keep, or to leave out with a - before each.
        - at_least: a position, or bookmarks, that the rows must have come to. A store that has not
          is given some time. The bookmark of a message that one published is enough to read it.
        - as_of: a time that has passed. The rows are those of then: made of all that each source
          had sent by then. A store finds them in its journal, or raises PastUnavailable.

        Raises InvalidArgument, InvalidFilter, Closed, and the error of the last store if none
        answers in time: TopicHasNoKeys, StateUnavailable, PastUnavailable, InLimbo, Unreachable,
        StorageFailed.
        """
        return await self._rows(
            request_of(self._topic, where, order_by, limit, select, at_least, _time_ns(as_of))
        )

    async def batches(
        self,
        where: str | None = None,
        *,
        order_by: str | Sequence[str] | None = None,
        limit: int | None = None,
        select: str | Sequence[str] | None = None,
        at_least: AtLeast = None,
        as_of: AsOf = None,
        batch: int = BATCH_ROWS,
    ) -> AsyncIterator[Rows]:
        """Yield rows in parts of so many, all at one position. The next is read when it is taken.

        Arguments and errors are those of `query`. If the store fails when some were given, its
        error is raised: another store has another position.
        """
        if batch < 1:
            raise InvalidArgument("batch", f"{batch} rows are none; give 1 or more")
        request = request_of(self._topic, where, order_by, limit, select, at_least, _time_ns(as_of))
        part: list[ReplayedMessage] = []
        position = Position()
        async with aclosing(self._answers(request)) as answers:
            async for position, response in answers:
                part += self._messages(response)
                while len(part) >= batch:
                    yield Rows(part[:batch], position)
                    part = part[batch:]
        if part:
            yield Rows(part, position)

    async def query_and_subscribe(
        self,
        where: str | None = None,
        *,
        select: str | Sequence[str] | None = None,
        at_least: AtLeast = None,
    ) -> tuple[Rows, Subscriber]:
        """Return rows, and an open subscription to the stable messages that follow them.

        Between the two nothing is lost and nothing is doubled, also if another store serves the
        subscription. A message that follows is the new row of its key unless the row is newer. With
        `where`, a message that does not pass is not given, so a row may stay that no longer passes:
        `watch` says so.

        Arguments and errors are those of `query`.
        """
        rows = await self.query(where, select=select, at_least=at_least)
        return rows, await self._subscribe(rows.position, where, select)

    async def delete(self, key: Key, *, source: DeletingSource) -> bool:
        """Delete the row of a key, and return whether there was one.

        A deletion is a message of the source: it has key, properties and payload of the row, and
        goes where every message goes. The call waits until it is stable.

        - key: as for `get`.
        - source: an open source of the topic.

        Raises what `get` and the source raise. Raises InvalidArgument if the time of the row is
        ahead of this clock: a deletion would be older than the row.
        """
        check_deletes(source.name, self._topic)
        row = await self.get(key)
        if row is None:
            return False
        await self._delete([row], source)
        await source.flush()
        return True

    async def delete_where(self, where: str, *, source: DeletingSource) -> int:
        """Delete the rows for which a condition is true, and return how many there were.

        Rows that change meanwhile are deleted, too. The rest is as for `delete`.
        """
        check_deletes(source.name, self._topic)
        count = 0
        async for part in self.batches(where):
            await self._delete(part, source)
            count += len(part)
        await source.flush()
        return count

    async def _delete(self, rows: Iterable[ReplayedMessage], source: DeletingSource) -> None:
        for row in rows:
            check_is_past(row, time.time_ns())
            await source.delete(row.key, row.properties, payload=row.payload)

    async def sql(
        self,
        statement: str,
        *,
        where: str | None = None,
        select: str | Sequence[str] | None = None,
        at_least: AtLeast = None,
        as_of: AsOf = None,
    ) -> Answer:
        """Answer a statement in SQL over the rows, as a table named `rows`.

        Its columns are the fields of payloads, and `"$key"`, `"$time"` and `"$source"` of each
        message. The rows come to this process, and DuckDB answers: the statement sees nothing else.
        It needs the extra `query` to be installed.

        - statement: such as "select symbol, sum(quantity) from rows group by symbol".
        - where, select: make the rows and their fields fewer before they are sent.
        - at_least, as_of: as for `query`.

        Raises what `batches` does. Raises InvalidArgument if the statement is wrong, if a field has
        values of several types, or if the rows are too large for a table.
        """
        asked = Statement(statement)
        rows: RowTable | None = None
        request = request_of(
            self._topic, where, select=select, at_least=at_least, as_of_ns=_time_ns(as_of)
        )
        part: list[ReplayedMessage] = []
        position = Position()
        async with aclosing(self._answers(request)) as answers:
            async for at, response in answers:
                position = at
                if rows is None:
                    rows = RowTable(_payload_of(response, self._turns.store))
                part += self._messages(response)
                if len(part) >= _SQL_BATCH_ROWS or response.HasField("end"):
                    await asyncio.to_thread(rows.add, part)
                    part = []
        assert rows is not None
        try:
            table = await asyncio.to_thread(lambda: asked.run(rows.table()))
        except asyncio.CancelledError:
            asked.interrupt()
            raise
        return Answer(table, position)

    def watch(
        self,
        where: str | None = None,
        *,
        select: str | Sequence[str] | None = None,
        at_least: AtLeast = None,
    ) -> Watching:
        """Return a watch of rows, to be iterated, and closed at the end.

        It yields each row as `Updated`, then `Completed`, and then what changes. `Updated` is a row
        that is new or another one. `Left` is a key that no longer has a row for which `where` is
        true. Of a key that changes fast only the newest row is given. If the store fails
        it goes on at another one: nothing is missed, and a row comes again only if it is new.

        Arguments are those of `query`. Iterating raises what `query` does, and InvalidArgument if
        there are more rows than one watch can hold. `timeout` of the state counts until the first
        store has answered.
        """
        asked = request_of(self._topic, where, select=select, at_least=at_least)
        request = store_v1.WatchStateRequest(
            protocol_version=PROTOCOL_VERSION,
            topic=asked.topic,
            where=asked.where,
            select=asked.select,
            at_least=asked.at_least,
        )
        return Watching(
            request,
            Turns(self._turns.stores, self._chooser),
            self._connections,
            self._timeout,
            self._delays,
            self._check_open,
        )

    async def count(
        self, where: str | None = None, *, at_least: AtLeast = None, as_of: AsOf = None
    ) -> int:
        """Return how many rows there are, or how many `where` is true of.

        Arguments and errors are those of `query`.
        """
        request = request_of(self._topic, where, at_least=at_least, as_of_ns=_time_ns(as_of))
        request.counts_only = True
        return int((await self._whole(request))[-1].end.count)

    async def _rows(self, request: store_v1.QueryStateRequest) -> Rows:
        responses = await self._whole(request)
        messages = [each for response in responses for each in self._messages(response)]
        return Rows(messages, position_from_wire(responses[0].position))

    def _messages(self, response: store_v1.QueryStateResponse) -> list[ReplayedMessage]:
        store = self._turns.store.address
        return [message_of(frame, store) for frame in response.rows]

    # -- one store after the other ----------------------------------------------------------

    async def _whole(
        self, request: store_v1.QueryStateRequest
    ) -> list[store_v1.QueryStateResponse]:
        """Return the whole answer of a store. If a store fails on the way, another is asked."""
        tries = 0
        while True:
            responses: list[store_v1.QueryStateResponse] = []
            try:
                async for _, response in self._answers(request):
                    responses.append(response)
                return responses
            except QuorateError:
                tries += 1
                if not responses or tries > len(self._turns.stores):
                    raise

    async def _answers(
        self, request: store_v1.QueryStateRequest
    ) -> AsyncGenerator[tuple[Position, store_v1.QueryStateResponse], None]:
        """Yield the answers of a store that answers, each with the position of all."""
        request.protocol_version = PROTOCOL_VERSION
        loop = asyncio.get_running_loop()
        ends = None if self._timeout is None else loop.time() + self._timeout
        failures, turns = 0, self._turns
        while True:
            self._check_open()
            store = turns.store
            left = _WAIT_SECONDS if ends is None else ends - loop.time()
            request.wait_seconds = max(0.0, min(_WAIT_SECONDS, left / len(turns.stores)))
            has_begun = False
            try:
                async with aclosing(self._from(store, request)) as responses:
                    first = await anext(responses)
                    has_begun = True
                    turns.gave()
                    position = position_from_wire(first.position)
                    yield position, first
                    async for response in responses:
                        yield position, response
                    return
            except QuorateError as error:
                if isinstance(error, _FINAL):
                    raise
                if turns.store == store:  # another query may have left it, too
                    turns.left(error)
                if has_begun:
                    raise
                failures += 1
                if failures % len(turns.stores) == 0:
                    pause = delay(self._delays, failures // len(turns.stores))
                    if not error.retryable or (ends is not None and loop.time() + pause >= ends):
                        raise
                    await asyncio.sleep(pause)

    async def _from(
        self, store: StoreAddress, request: store_v1.QueryStateRequest
    ) -> AsyncGenerator[store_v1.QueryStateResponse, None]:
        with self._connections.connect(store.address) as connection:
            call = connection.store.QueryState(request)
            joining = RowJoining(str(store))
            try:
                with errors_of(store.address):
                    while True:
                        async with asyncio.timeout(request.wait_seconds + _SILENCE_SECONDS):
                            response = await call.read()
                        if not isinstance(response, store_v1.QueryStateResponse):
                            raise Unreachable(store.address, "it ended the answer")
                        if (
                            response.HasField("part")
                            and (row := joining.take(response.part.data, response.part.ends))
                            is not None
                        ):
                            response.rows.insert(0, row)
                        yield response
                        if response.HasField("end"):
                            self._connections.keep(store.address)
                            return
            finally:
                call.cancel()


def _payload_of(response: store_v1.QueryStateResponse, store: StoreAddress) -> PayloadFormat:
    """Return the format of the payloads of rows. Raises InvalidArgument if it is not known here."""
    try:
        return PayloadFormat(response.payload or PayloadFormat.JSON)
    except ValueError:
        raise InvalidArgument(
            "statement",
            f"needs payloads as JSON or MessagePack; at {store.address} they are "
            f"{response.payload!r}, which this version does not know",
        ) from None


def _time_ns(as_of: AsOf) -> int | None:
    return None if as_of is None else read_time("as_of", as_of, time.time_ns())
