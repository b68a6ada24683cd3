"""The guard of a store: it checks each call by the rules of access before the call is served.

The table says which verbs permit a call, and which topics the call is about. A call that is not in
it cannot be served. Without rules a store has no guard, and its calls cost nothing more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import (
    AbstractContextManager,
    ExitStack,
    aclosing,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

from google.protobuf.descriptor import ServiceDescriptor

from quorate.protocol.access import EVERYTHING, Access, Subject, Verb
from quorate.protocol.errors import AccessDenied, LimitReached, QuorateError
from quorate.store.rpc.append import Context
from quorate.store.rpc.lanes import Pace
from quorate.store.rules.quotas import Quotas, Use
from quorate.transport.identities import Tokens, names_of
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import queue_pb2 as queue_v1
from quorate.v1 import store_pb2 as store_v1

SERVICE: ServiceDescriptor = store_v1.DESCRIPTOR.services_by_name["Store"]
"""The calls of a store."""


@dataclass(frozen=True, slots=True)
class _Call:
    """The verbs of which one permits a call, and the subjects of a request."""

    verbs: Callable[[Any], tuple[Verb, ...]]
    subjects: Callable[[Any], Iterable[Subject]]


def _source(request: Any) -> Iterable[Subject]:
    yield Subject(request.source.topic)


def _source_or_all(request: Any) -> Iterable[Subject]:
    yield Subject(request.source.topic) if request.HasField("source") else EVERYTHING


def _pattern(request: Any) -> Iterable[Subject]:
    yield Subject(request.topic_pattern, is_pattern=True)


def _watched(request: store_v1.WatchRequest) -> Iterable[Subject]:
    is_topic = request.WhichOneof("selection") == "topic"
    yield Subject(request.topic) if is_topic else Subject(request.topic_pattern, is_pattern=True)


def _subscribed(request: store_v1.SubscribeRequest) -> Iterable[Subject]:
    is_topic = request.WhichOneof("topics") == "topic"
    yield Subject(request.topic) if is_topic else Subject(request.pattern, is_pattern=True)


def _acknowledged(request: store_v1.AcknowledgeRequest) -> Iterable[Subject]:
    return map(Subject, {each.source.topic for each in request.acknowledgements})


def _archived(request: store_v1.ArchivedRequest) -> Iterable[Subject]:
    return map(Subject, {each.source.topic for each in request.sources})


def _opened_append(frame: Any) -> Iterable[Subject]:
    yield Subject(frame.open.information.source.topic)


def _topic(request: Any) -> Iterable[Subject]:
    yield Subject(request.topic)


def _everything(_: Any) -> Iterable[Subject]:
    yield EVERYTHING


def _opened_queue(request: queue_v1.ConsumeRequest) -> Iterable[Subject]:
    yield Subject(request.open.queue)


def _queue_or_all(request: queue_v1.ShowQueuesRequest) -> Iterable[Subject]:
    yield Subject(request.queue) if request.queue else EVERYTHING


def _opened_restore(request: store_v1.RestoreRequest) -> Iterable[Subject]:
    yield Subject(request.open.source.topic)


def _ending(request: store_v1.DeregisterRequest) -> tuple[Verb, ...]:
    """A receiver may leave, and a source may take back a promise that it did not use.

    A store may end a source whose state lifetime is over.
    """
    if request.receiver_session_id:
        return (Verb.DELETE, Verb.RECEIVE)
    if request.expired:
        return (Verb.DELETE, Verb.REPLICATE)
    return (Verb.DELETE, Verb.SEND) if request.unused_promise_to else (Verb.DELETE,)


def _asking(request: store_v1.InventoryRequest) -> tuple[Verb, ...]:
    """A store learns from a greeting, so only another store may greet it."""
    if request.HasField("greeting"):
        return (Verb.REPLICATE,)
    return (Verb.REPLICATE, Verb.QUERY, Verb.OPERATE)


def _by(*verbs: Verb) -> Callable[[Any], tuple[Verb, ...]]:
    return lambda _: verbs


_READS = _by(Verb.RECEIVE, Verb.SEND, Verb.QUERY, Verb.REPLICATE)
"""A source that lost its memory fetches what it sent."""
_LOOK_VERBS = (Verb.QUERY, Verb.OPERATE)
_READ_VERBS = (Verb.SUBSCRIBE, Verb.RECEIVE, Verb.QUERY)
"""The verbs by which a person may read the messages of a topic."""
_LOOKS = _by(*_LOOK_VERBS)
_LOOKS_AS_PEER = _by(*_LOOK_VERBS, Verb.REPLICATE)
"""A store asks its peers how they are, for those who look at its page."""

BUNDLE = "Bundle"
"""The call that has others in it, each of which is admitted by itself."""

CALLS = {
    "Promise": _Call(_by(Verb.SEND), _source),
    "Begin": _Call(_by(Verb.SEND), _source),
    "Append": _Call(_by(Verb.SEND), _opened_append),
    "RegisterReceiver": _Call(_by(Verb.RECEIVE), _source),
    "Acknowledge": _Call(_by(Verb.RECEIVE), _acknowledged),
    "Fetch": _Call(_READS, _source),
    "Locate": _Call(_by(Verb.RECEIVE, Verb.QUERY), _source),
    "Subscribe": _Call(_by(Verb.SUBSCRIBE), _subscribed),
    "QueryState": _Call(_by(Verb.QUERY), _topic),
    "WatchState": _Call(_by(Verb.QUERY), _topic),
    "DigestState": _Call(_by(Verb.REPLICATE, Verb.QUERY, Verb.OPERATE), _topic),
    "Watch": _Call(_by(Verb.RECEIVE), _watched),
    "Status": _Call(_LOOKS_AS_PEER, _pattern),
    "Journal": _Call(_LOOKS, _pattern),
    "Deregister": _Call(_ending, _source),
    "Inventory": _Call(_asking, _source_or_all),
    "StateCandidates": _Call(_by(Verb.REPLICATE), _topic),
    "Digest": _Call(_by(Verb.REPLICATE, Verb.QUERY, Verb.OPERATE), _source),
    "Release": _Call(_by(Verb.OPERATE), _pattern),
    "Archived": _Call(_by(Verb.OPERATE), _archived),
    "Repair": _Call(_by(Verb.OPERATE), _source_or_all),
    "AcceptLoss": _Call(_by(Verb.OPERATE), _source),
    "SettleConflict": _Call(_by(Verb.OPERATE), _source),
    "Restore": _Call(_by(Verb.OPERATE), _opened_restore),
    "Backup": _Call(_by(Verb.REPLICATE), _everything),
    "Consume": _Call(_by(Verb.CONSUME), _opened_queue),
    "ShowQueues": _Call(_LOOKS_AS_PEER, _queue_or_all),
}

Refuse = Callable[[Context, QuorateError], Awaitable[Any]]
"""Ends a call with an error."""


class Admission:
    """The admission of calls: by the rules, and by what each identity uses already."""

    def __init__(self, access: Callable[[], Access], tokens: Tokens | None) -> None:
        """Begin without calls.

        - access: returns the rules that count now.
        - tokens: those that callers may show; None: they show none.
        """
        self._access = access
        self._tokens = tokens
        self._quotas = Quotas()

    def admit(self, name: str, request: Any, context: Context) -> AbstractContextManager[Use]:
        """Admit a call while the context lasts. Raises AccessDenied, LimitReached."""
        names, call = names_of(context, self._tokens), CALLS[name]
        access = self._access()
        access.check(names, call.verbs(request), call.subjects(request))
        return self._quotas.used(
            ", ".join(sorted(names)),
            access.limits(names),
            context.peer(),
            subscribes=name == "Subscribe",
        )

    def admit_token(self, token: str, topic: str | None = None) -> None:
        """Admit a caller that shows a token to what a store tells.

        topic: whose messages the caller reads; None: it looks at all topics, and reads no message.
        Raises AccessDenied.
        """
        identity = self._tokens.identity_of(token) if self._tokens is not None else None
        names = frozenset() if identity is None else frozenset((identity,))
        if topic is None:
            self._access().check(names, _LOOK_VERBS, (EVERYTHING,))
        else:
            self._access().check(names, _READ_VERBS, (Subject(topic),))


Admit = Callable[[Any, Context], AbstractContextManager[Use]]


def guarded(service: Any, admission: Admission, descriptor: ServiceDescriptor) -> Any:
    """Return a service whose calls are admitted before this service serves them.

    descriptor: its calls.
    """
    refuse: Refuse = service.refuse

    def wrapped(method: Any) -> Any:
        serve, admit = getattr(service, method.name), partial(admission.admit, method.name)
        if method.name not in CALLS:
            raise KeyError(method.name)
        if method.name == "Append":
            return _with_lanes(serve, admit)
        if method.client_streaming:
            return _with_first_request(serve, admit)
        if method.server_streaming:
            return _streaming(serve, admit, refuse)
        return _answering(serve, admit, refuse)

    calls = {each.name: wrapped(each) for each in descriptor.methods if each.name != BUNDLE}
    guarding = SimpleNamespace(**calls)
    if BUNDLE in descriptor.methods_by_name:

        async def bundle(_: Any, context: Context) -> None:
            await service.unbundle(guarding, context)

        guarding.Bundle = bundle
    return guarding


def _answering(serve: Any, admit: Admit, refuse: Refuse) -> Any:
    async def call(request: Any, context: Context) -> Any:
        async with _admitted(admit, refuse, request, context):
            return await serve(request, context)

    return call


def _streaming(serve: Any, admit: Admit, refuse: Refuse) -> Any:
    async def call(request: Any, context: Context) -> AsyncIterator[Any]:
        async with (
            _admitted(admit, refuse, request, context) as use,
            aclosing(serve(request, context)) as responses,
        ):
            async for response in responses:
                yield response
                await _pace(use, response)

    return call


@asynccontextmanager
async def _admitted(
    admit: Admit, refuse: Refuse, request: Any, context: Context
) -> AsyncIterator[Use]:
    """Admit a call while the context lasts, or end it with the error."""
    with ExitStack() as stack:
        try:
            use = stack.enter_context(admit(request, context))
        except (AccessDenied, LimitReached) as error:
            await refuse(context, error)
        yield use


async def _pace(use: Use, moved: Any) -> None:
    """Wait if the identity moves more bytes than it may."""
    if use.limits.bytes_per_second and (seconds := use.wait(moved.ByteSize(), time.monotonic())):
        await asyncio.sleep(seconds)


def _with_first_request(serve: Any, admit: Admit) -> Any:
    async def call(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
        with ExitStack() as stack:

            async def admitted() -> AsyncIterator[Any]:
                use: Use | None = None
                async for request in requests:
                    use = use or stack.enter_context(admit(request, context))
                    await _pace(use, request)
                    yield request

            async with aclosing(serve(admitted(), context)) as responses:
                async for response in responses:
                    yield response

    return call


def _with_lanes(serve: Any, admit: Admit) -> Any:
    async def call(requests: Any, context: Context) -> None:
        @contextmanager
        def admitted(frame: v1.Frame) -> Iterator[Pace]:
            with admit(frame, context) as use:
                yield partial(_pace, use)

        await serve(requests, context, admitted)

    return call
