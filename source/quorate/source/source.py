"""The public source: applications open it, send with it and close it.

Only the hot path and the checks of arguments live here; the engine does everything else.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from time import time_ns
from types import TracebackType
from typing import Self

from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes, has_any
from quorate.protocol.choices import check_flag, check_function, options_of
from quorate.protocol.errors import (
    Closed,
    InvalidArgument,
    NotYetOnDisk,
    QuorateError,
    UsedBeforeFork,
)
from quorate.protocol.identity import SourceName, check_reg_id, check_session_id, check_topic
from quorate.protocol.layout import Layout, Stores
from quorate.protocol.limits import SESSION_ID_MAX
from quorate.protocol.lineage import Lineage
from quorate.protocol.policy import Policy
from quorate.protocol.timeouts import check_timeout
from quorate.protocol.tls import Tls
from quorate.source.events import Event, SourceClosed
from quorate.source.io.engine import Engine
from quorate.source.io.live_server import LiveServers
from quorate.source.options import SourceOptions
from quorate.source.protocol.outgoing import (
    Outgoing,
    Ready,
    always_waits,
    as_bytes,
    check_commit,
    check_usual,
    checked,
    checked_one,
    deletion,
    one_ready,
    ready_of,
)
from quorate.source.protocol.unstable import UnstableMessage
from quorate.source.publish_store import MemoryPublishStore, PublishStore
from quorate.source.receipts import Receipt
from quorate.transport import forks
from quorate.transport.connections import Connections

OPEN_SECONDS = 30.0
"""The default time, in seconds, for which opening waits for enough stores."""

CLOSE_SECONDS = 10.0
"""The default time, in seconds, for which closing waits for sent messages to become stable."""


class Source:
    """A source: sends one topic's messages to its receivers and, at the same time, to its stores.

    Open it with `Source.open`, and use it on the event loop on which it was opened.
    """

    def __init__(self, engine: Engine, on_closed: Callable[[], object] | None = None) -> None:
        """Wrap a running engine. Applications use `Source.open`."""
        self._engine = engine
        self._core = engine.core
        self._window = engine.core.window
        self._packer = engine.packer
        self._kept = engine.publish_store.durable or engine.publish_store.slow
        self._closed = False
        self._ended = asyncio.Event()
        self._on_closed = on_closed
        forks.watch(self, Source._forked)

    @classmethod
    async def open(
        cls,
        topic: str,
        *,
        stores: Stores | Layout,
        session_id: int | None = None,
        reg_id: int | None = None,
        policy: Policy | None = None,
        previous_policies: Sequence[Stores | Layout] = (),
        publish_store: PublishStore | None = None,
        take_over: bool = False,
        options: SourceOptions | None = None,
        timeout: float | None = OPEN_SECONDS,
        on_event: Callable[[Event], None] | None = None,
        connections: Connections | None = None,
        live_servers: LiveServers | None = None,
        tls: Tls | None = None,
        on_closed: Callable[[], object] | None = None,
    ) -> Source:
        """Return a source that is registered with its stores and may send.

        - stores: a list of them, of which a majority makes a message stable; or a Layout of groups
          with rules and backups.
        - session_id: identifies the source together with the topic; give the same one after a
          restart. None: that of the publish store, or reg_id, or a random one. Stores forget a
          source with a random one once it has closed and its messages have left them.
        - reg_id: the RegID to have on every store that does not name one; None: each store assigns
          one.
        - policy: the rule of stability for stores that were given as a list; None: a majority.
        - previous_policies: what `stores` was in earlier configurations. Needed until one source
          has registered under the present one. Without it the source refuses to take over a stream
          that is under another policy.
        - publish_store: keeps what is not stable yet; None: in memory.
        - take_over: take the identity even if another process is using it now.
        - timeout: seconds to wait for enough stores, and for an activity timeout that ends in time.
          None: wait for as long as it takes, also for an instance that is alive. After that time
          opening raises NoQuorum, unless SourceOptions.without_quorum says otherwise.
        - on_event: a function that gets each event at once, on the event loop, from the start of
          the registration on. It must not block.
        - connections, live_servers: those of the client that opens the source; None: the source
          has its own.
        - tls: the TLS files of connections of its own; None: they are not secure.
        - on_closed: a function that is called once when the source is closed.

        Raises InvalidArgument, NoQuorum, PolicyNotInForce, SourceActive, Fenced, MissingMessages,
        SourceDeleted, ContentConflict, RegIdInUse, TopicRefused, NotAStore, VersionMismatch,
        StorageFailed, TlsFailed, AccessDenied, ConfigurationInvalid.
        """
        forks.check()
        layout = _layout(stores, policy)
        previous = [_layout(earlier) for earlier in previous_policies]
        check_timeout(timeout)
        check_function("on_event", on_event)
        check_flag("take_over", take_over)
        if reg_id is not None:
            check_reg_id(reg_id)
        if publish_store is None:
            publish_store = MemoryPublishStore()
        elif not hasattr(publish_store, "claim"):
            detail = f"{publish_store!r} is none; give one, such as FilePublishStore(path)"
            raise InvalidArgument("publish_store", detail)
        remembered = publish_store.open()
        try:
            name = _name(topic, session_id, reg_id, remembered.source)
            # A publish store that outlives the process keeps the session ID for the next one.
            is_drawn = session_id is None and reg_id is None and not publish_store.durable
            publish_store.claim(name)
            engine = Engine(
                name,
                layout,
                previous,
                options_of(SourceOptions, options),
                publish_store,
                remembered,
                reg_id=reg_id or 0,
                drawn=is_drawn,
                take_over=take_over,
                on_event=on_event,
                connections=connections,
                live_servers=live_servers,
                tls=tls,
            )
        except BaseException:
            publish_store.close()
            raise
        try:
            await engine.start(timeout)
        except BaseException:
            await engine.give_up()
            raise
        if publish_store.slow:
            return _SyncedSource(engine, on_closed)
        kind = _KeptSource if publish_store.durable else cls
        return kind(engine, on_closed)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
        else:
            # The error from inside is what matters; an error of the close must not hide it.
            await self._close(CLOSE_SECONDS)

    # -- sending ----------------------------------------------------------------------------

    # Keyword-only parameters would cost each call 10 % of its time.
    async def send(
        self,
        payload: bytes,
        key: bytes | None = None,
        properties: Mapping[str, bytes] | None = None,
        expires: datetime | float | None = None,
        timeout: float | None = None,
        wait_quorum: bool = False,
    ) -> int:
        """Accept a message and return its sequence number.

        - key: what the message is about.
        - properties: values by name, by which receivers may filter.
        - expires: the time at which the message expires, or in how many seconds from now. It may
          be past. None: never.
        - timeout: seconds to wait at most; 0: the call does not wait; None: no limit.
        - wait_quorum: whether to wait while too few stores take the stream, too.

        Key, properties and expiry count towards the size of the message.

        The call waits only while the flight window is full. With SourceOptions.receiver_pacing it
        also waits for receivers that lag. With a publish store that syncs it waits for the sync,
        and raises NotYetOnDisk if that is not done in time. The message is then accepted.

        Raises NotRegistered while too few stores take the stream, unless
        SourceOptions.without_quorum says otherwise. Raises SendTimedOut, MessageTooLarge, NotKept,
        InvalidArgument, Closed, or the error that ended the source. In all these cases the source
        has not accepted the message.
        """
        window = self._window
        if key is not None or properties is not None or expires is not None:
            message = Outgoing(payload, key, properties or {}, expires)
            return await self._send_one(message, timeout, wait_quorum)
        if payload.__class__ is not bytes:
            payload = as_bytes(payload)
        size = len(payload)
        if size > window.usual_bytes_max:
            return await self._send_large(payload, NO_ATTRIBUTES, timeout, wait_quorum)
        sequence, sent_bytes = window.next_sequence, window.sent_bytes
        while sequence >= window.pause_at or sent_bytes >= window.pause_at_bytes:
            await self._packer.make_room(timeout, wait_quorum)
            sequence, sent_bytes = window.next_sequence, window.sent_bytes
        window.times.append(time_ns())
        window.next_sequence = sequence + 1
        window.sent_bytes = sent_bytes + size
        window.payloads.append(payload)
        return sequence

    def send_nowait(
        self,
        payload: bytes,
        key: bytes | None = None,
        properties: Mapping[str, bytes] | None = None,
        expires: datetime | float | None = None,
    ) -> int:
        """Accept a message without a wait, and return its sequence number.

        A plain function: it costs less than send, and code that cannot await may call it. Messages
        leave once the caller gives the event loop a turn. The arguments are those of send.

        Raises SendTimedOut if send would wait, and all else that send raises. Raises
        InvalidArgument for a message above 1 MiB, and with a publish store that syncs.
        """
        window = self._window
        if self._kept or key is not None or properties is not None or expires is not None:
            return self._accept(Outgoing(payload, key, properties or {}, expires))
        if payload.__class__ is not bytes:
            payload = as_bytes(payload)
        size = len(payload)
        if size > window.usual_bytes_max:
            return self._accept(Outgoing(payload))
        sequence, sent_bytes = window.next_sequence, window.sent_bytes
        if sequence >= window.pause_at or sent_bytes >= window.pause_at_bytes:
            self._packer.make_room_at_once()
        window.times.append(time_ns())
        window.next_sequence = sequence + 1
        window.sent_bytes = sent_bytes + size
        window.payloads.append(payload)
        return sequence

    def _accept(self, message: Outgoing) -> int:
        if self._engine.publish_store.slow:
            raise always_waits()
        window = self._window
        payload, attributes = checked_one(message, window.limit, time_ns())
        ready = one_ready(payload, attributes)
        check_usual(ready)
        sequence = window.next_sequence
        if sequence >= window.pause_at or window.sent_bytes >= window.pause_at_bytes:
            self._packer.make_room_at_once()
        self._packer.add_one(ready)
        return sequence

    async def delete(
        self,
        key: bytes | None,
        properties: Mapping[str, bytes] | None = None,
        timeout: float | None = None,
        wait_quorum: bool = False,
        payload: bytes = b"",
    ) -> int:
        """Accept a message that deletes the row of a key, and return its sequence number.

        Receivers get the message as any other. The row is that of the key in the state of the
        world. If fields of the payload make the key, give a payload that has them, and None as key.
        The other arguments are those of send. Raises what send raises.
        """
        return await self._send_one(deletion(key, properties, payload), timeout, wait_quorum)

    async def _send_one(self, message: Outgoing, timeout: float | None, wait_quorum: bool) -> int:
        window = self._window
        payload, attributes = checked_one(message, window.limit, time_ns())
        ready = one_ready(payload, attributes)
        if ready.size > window.usual_bytes_max:
            return await self._send_large(payload, attributes, timeout, wait_quorum)
        while window.next_sequence >= window.pause_at or window.sent_bytes >= window.pause_at_bytes:
            await self._packer.make_room(timeout, wait_quorum)
        sequence = window.next_sequence
        self._packer.add_one(ready)
        return sequence

    async def _send_large(
        self, payload: bytes, attributes: Attributes, timeout: float | None, wait_quorum: bool
    ) -> int:
        self._window.limit.check(len(payload) + attributes.size)
        ready = ready_of([payload], [attributes] if has_any([attributes]) else [])
        return (await send_ready(self, ready, timeout, wait_quorum)).start

    async def send_many(
        self,
        messages: Iterable[bytes | Outgoing],
        timeout: float | None = None,
        wait_quorum: bool = False,
    ) -> range:
        """Accept messages one after the other and return their sequence numbers.

        timeout and wait_quorum are those of send, for all messages together. Raises what send
        raises. The source checks all messages before it accepts the first. If it fails, loses its
        quorum or has no room in time, it may have accepted some of them; next_sequence tells how
        many.
        """
        ready = checked(messages, self._window.limit, time_ns())
        return await send_ready(self, ready, timeout, wait_quorum)

    async def commit(
        self,
        messages: Iterable[bytes | Outgoing],
        marker: bytes,
        timeout: float | None = None,
        wait_quorum: bool = False,
    ) -> range:
        """Accept messages together with a marker, as one batch, and return their sequence numbers.

        After a crash the stream has all of them and the marker, or none. `marker` of the next
        source with this identity tells which. A commit has at least one message, and at most
        BATCH_MESSAGES_MAX messages of together BATCH_BYTES_TARGET bytes, or one message of at most
        MESSAGE_BYTES_USUAL bytes.

        timeout and wait_quorum are those of send. Raises what send raises, and InvalidArgument if
        the messages are too many for one batch.
        """
        ready = checked(messages, self._window.limit, time_ns())
        marker = check_commit(ready, marker)
        return await commit_ready(self, ready, marker, timeout, wait_quorum)

    async def publish(
        self,
        payload: bytes,
        key: bytes | None = None,
        properties: Mapping[str, bytes] | None = None,
        expires: datetime | float | None = None,
        timeout: float | None = None,
        wait_quorum: bool = False,
    ) -> Receipt:
        """Send a message, wait until it is stable, and return the proof.

        timeout: seconds for all of that; None: no limit. The other arguments are those of send.

        Raises what send raises. Raises NotYetStable if the message was accepted, and is not stable
        in time or when the source is closed.
        """
        check_timeout(timeout)
        if (tracing := self._engine.tracing) is None:
            return await self._publish(payload, key, properties, expires, timeout, wait_quorum)
        with tracing.publishing(self.name, properties) as publishing:
            receipt = await self._publish(
                payload, key, publishing.properties, expires, timeout, wait_quorum
            )
            publishing.is_stable(receipt.sequence, receipt.stores)
        return receipt

    async def _publish(
        self,
        payload: bytes,
        key: bytes | None,
        properties: Mapping[str, bytes] | None,
        expires: datetime | float | None,
        timeout: float | None,
        wait_quorum: bool,
    ) -> Receipt:
        loop = asyncio.get_running_loop()
        since = loop.time()
        sequence = await self.send(payload, key, properties, expires, timeout, wait_quorum)
        left = None if timeout is None else max(0.0, since + timeout - loop.time())
        return await self._engine.receipt(sequence, since, left)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until every message sent so far is stable.

        Raises NotYetStable after timeout seconds (None: no limit), or the error that ended the
        source.
        """
        await self.wait_stable(self._window.next_sequence - 1, timeout)

    async def wait_stable(self, upto: int, timeout: float | None = None) -> None:
        """Wait until every message up to this number is stable.

        Raises what flush raises, and InvalidArgument if the number was not sent yet.
        """
        check_timeout(timeout)
        if not isinstance(upto, int):
            raise InvalidArgument("upto", f"{upto!r} is not a sequence number")
        newest = self._window.next_sequence - 1
        if upto > newest:
            never = InvalidArgument("upto", f"{upto} was not sent yet; the newest is {newest}")
            raise self._core.error or never
        await self._engine.wait_stable(upto, timeout)

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Wait for sent messages to become stable, tell stores and receivers, and end.

        If some message is not stable, raises the error that ended the source. Raises NotYetStable
        if timeout seconds were not enough, unless a publish store on disk keeps the rest. Raises
        NotYetOnDisk if its disk hangs. In all these cases the source is closed.
        """
        error = await self._close(timeout)
        if error is not None:
            raise error

    async def _close(self, timeout: float) -> QuorateError | None:
        forks.check()
        check_timeout(timeout)
        if self._closed:
            await self._ended.wait()  # another task may be closing it
            return None
        self._closed = True
        try:
            return await self._end(timeout)
        finally:
            self._has_ended()

    async def _end(self, timeout: float) -> QuorateError | None:
        engine, core = self._engine, self._core
        last = self._window.next_sequence - 1
        problem: QuorateError | None = None
        kept = False
        try:
            # A send that still waits gets an error now; its message gets no place in the stream.
            core.stop_accepting()
            self._packer.progressed()
            await engine.wait_stable(last, timeout)
        except QuorateError as error:
            kept = core.error is None and engine.publish_store.durable
            problem = None if kept else error
        finally:
            await (engine.stop() if core.started else engine.give_up())
            engine.receipts.fail(lambda upto: engine.not_yet_stable(upto, "the source was closed"))
            engine.log.add(SourceClosed(last, core.stable_upto))
            engine.log.end()
        if kept and not self._packer.all_synced:
            return _not_on_disk(self, core.stable_upto + 1, last, "the source was closed")
        return problem

    def _forked(self, error: UsedBeforeFork) -> None:
        """Raise this error from now on, in a child that was forked. No other thread runs there."""
        self._window.lock = nullcontext()
        self._closed = True
        self._ended.set()
        self._engine.forked(error)

    def _has_ended(self) -> None:
        self._ended.set()
        if self._on_closed is not None:
            self._on_closed()

    async def deregister(self, timeout: float = CLOSE_SECONDS) -> None:
        """End this identity for good: the stores delete all that they have of it.

        The stores also delete messages that are not stable yet or that receivers have not read. The
        source cannot be used again; a new one of this name starts from the beginning. An event
        tells of each store. A store that is away hears of it from the others once it is back.

        Raises NoQuorum if too few stores have done it after timeout seconds. Some may have then:
        `quorate deregister` tries again. Raises Fenced if another instance owns the identity,
        Deregistered, Closed, StorageFailed.
        """
        check_timeout(timeout)
        self._check_not_closed()
        await self._engine.until_owner(timeout)
        self._check_not_closed()
        self._closed = True
        try:
            await self._engine.deregister(timeout)
        finally:
            self._has_ended()

    def _check_not_closed(self) -> None:
        if self._closed:
            raise self._core.refusal() or Closed(f"Source {self.name}")

    # -- state ----------------------------------------------------------------------------

    @property
    def name(self) -> SourceName:
        """The topic and the session ID."""
        return self._core.name

    @property
    def next_sequence(self) -> int:
        """The sequence number of the next message."""
        return self._window.next_sequence

    @property
    def stable_upto(self) -> int:
        """The highest sequence number with all messages before it stable; -1: none."""
        return self._core.stable_upto

    @property
    def unstable_messages(self) -> int:
        """The number of messages that were accepted and are not stable."""
        return self._window.next_sequence - 1 - self._core.stable_upto

    @property
    def unstable_bytes(self) -> int:
        """The bytes of these messages. A batch that is stable in part counts as a whole."""
        return max(0, self._window.sent_bytes - self._window.stable_bytes)

    @property
    def epoch(self) -> int:
        """The epoch in which the source is registered, or registers."""
        return self._core.epoch

    @property
    def marker(self) -> bytes:
        """The marker of this identity's last commit, also by an earlier source; empty: none."""
        return self._core.marker

    @property
    def registered(self) -> bool:
        """Whether enough stores take the stream, so that messages become stable."""
        return self._core.complete

    def unstable(self) -> list[UnstableMessage]:
        """Return the messages that were accepted and are not known to be stable, in order.

        Also after an error has ended the source, and after its close: another source can send them
        again, under numbers of its own. Receivers may then get some of them twice.
        """
        return self._core.unstable()

    def events(self) -> AsyncIterator[Event]:
        """Yield the newest events so far, then each new one, until the source is closed.

        Any number of consumers may read. A consumer that is too slow gets EventsLost.
        """
        return self._engine.log.read()


class _KeptSource(Source):
    """A source whose publish store has each message before its number is returned."""

    def __init__(self, engine: Engine, on_closed: Callable[[], object] | None = None) -> None:
        super().__init__(engine, on_closed)
        self._publish_store = engine.publish_store
        self._tail = engine.publish_store.tail

    # As in Source, which must not look for a publish store with every message.
    async def send(
        self,
        payload: bytes,
        key: bytes | None = None,
        properties: Mapping[str, bytes] | None = None,
        expires: datetime | float | None = None,
        timeout: float | None = None,
        wait_quorum: bool = False,
    ) -> int:
        window = self._window
        if key is not None or properties is not None or expires is not None:
            message = Outgoing(payload, key, properties or {}, expires)
            return await self._send_one(message, timeout, wait_quorum)
        if payload.__class__ is not bytes:
            payload = as_bytes(payload)
        size = len(payload)
        if size > window.usual_bytes_max:
            return await self._send_large(payload, NO_ATTRIBUTES, timeout, wait_quorum)
        sequence, sent_bytes = window.next_sequence, window.sent_bytes
        while sequence >= window.pause_at or sent_bytes >= window.pause_at_bytes:
            await self._packer.make_room(timeout, wait_quorum)
            sequence, sent_bytes = window.next_sequence, window.sent_bytes
        tail, after, now = self._tail, sequence + 1, time_ns()
        write = tail.write  # a call of an attribute would cost more
        if tail.next != sequence:
            self._publish_store.rewind(sequence)
        tail.next = after
        try:
            write(payload)
            tail.times[sequence - tail.first] = now
            tail.sizes[sequence - tail.first] = size + 1
        except (ValueError, IndexError):
            tail.next = sequence
            self._publish_store.keep_all(sequence, (payload,), (), (now,))
        window.times.append(now)
        window.next_sequence = after
        window.sent_bytes = sent_bytes + size
        window.payloads.append(payload)
        return sequence


class _SyncedSource(Source):
    """A source whose publish store has each message on the disk before its number is returned."""

    async def send(
        self,
        payload: bytes,
        key: bytes | None = None,
        properties: Mapping[str, bytes] | None = None,
        expires: datetime | float | None = None,
        timeout: float | None = None,
        wait_quorum: bool = False,
    ) -> int:
        message = Outgoing(payload, key, properties or {}, expires)
        return await self._send_one(message, timeout, wait_quorum)

    async def _send_one(self, message: Outgoing, timeout: float | None, wait_quorum: bool) -> int:
        payload, attributes = checked_one(message, self._window.limit, time_ns())
        ready = one_ready(payload, attributes)
        return (await send_ready(self, ready, timeout, wait_quorum)).start


# -- for the blocking source and the pipeline ------------------------------------------------


async def send_ready(
    source: Source, messages: Ready, timeout: float | None = None, wait_quorum: bool = False
) -> range:
    """Send messages that were checked already, as `Source.send_many` does."""
    until = _until(timeout)
    first = await source._packer.add_all(messages, timeout, wait_quorum)
    numbers = range(first, first + len(messages))
    await synced(source, numbers, until)
    return numbers


async def commit_ready(
    source: Source,
    messages: Ready,
    marker: bytes,
    timeout: float | None = None,
    wait_quorum: bool = False,
) -> range:
    """Commit messages that were checked already, as `Source.commit` does."""
    until = _until(timeout)
    first = await source._packer.commit(messages, marker, timeout, wait_quorum)
    numbers = range(first, first + len(messages))
    await synced(source, numbers, until)
    return numbers


async def synced(source: Source, numbers: range, until: float | None) -> None:
    """Wait until these accepted messages are as safe as the publish store promises.

    until: the loop's time at which the wait ends; None: no limit. Raises NotYetOnDisk,
    StorageFailed.
    """
    if not source._engine.publish_store.slow:
        return
    try:
        await source._packer.synced(until)
    except TimeoutError:
        detail = "the source was closed" if source._closed else "it took too long"
        raise _not_on_disk(source, numbers.start, numbers.stop - 1, detail) from None


def _until(timeout: float | None) -> float | None:
    """Return the loop's time at which a call with this timeout ends."""
    check_timeout(timeout)
    return None if timeout is None else asyncio.get_running_loop().time() + timeout


def _not_on_disk(source: Source, first: int, last: int, detail: str) -> NotYetOnDisk:
    place = source._engine.publish_store.place
    return NotYetOnDisk(str(source.name), first, last, detail, place)


async def receipt_of(
    source: Source, sequence: int, since: float, timeout: float | None = None
) -> Receipt:
    """Wait until a sent message is stable and return its receipt.

    since: the loop's time, in seconds, at which the publish began. timeout: seconds to wait.
    """
    return await source._engine.receipt(sequence, since, timeout)


def lineage_of(source: Source) -> Lineage:
    """Return the lineage of a source's stream, by which its messages are read back."""
    return source._core.registration.lineage


def _layout(stores: Stores | Layout, policy: Policy | None = None) -> Layout:
    if not isinstance(stores, Layout):
        return Layout.plain(stores, policy)
    if policy is not None:
        raise InvalidArgument("policy", "is part of the layout; give it there")
    return stores


def _name(
    topic: str, session_id: int | None, reg_id: int | None, remembered: SourceName | None
) -> SourceName:
    if session_id is None:
        if remembered is not None:
            session_id = remembered.session_id
        else:
            session_id = reg_id or 1 + secrets.randbelow(SESSION_ID_MAX)
    name = SourceName(check_topic(topic), check_session_id(session_id))
    if remembered not in (None, name):
        raise InvalidArgument(
            "publish store",
            f"it keeps the messages of {remembered}, not of {name}; give each source its own",
        )
    return name
