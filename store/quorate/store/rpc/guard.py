"""The guard of a store: it checks each call by the rules of access before the call is served.

The table says which verbs permit a call, and which topics the call is about. A call that is not in
it cannot be served. Without rules a store has no guard, and its calls cost nothing more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from quorate.protocol.access import EVERYTHING, Access, Subject, Verb
from quorate.protocol.errors import AccessDenied
from quorate.store.rpc.append import Context
from quorate.transport.identities import TokenFile, names_of
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1

_SERVICE = store_v1.DESCRIPTOR.services_by_name["Store"]


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


def _opened_append(frame: Any) -> Iterable[Subject]:
    yield Subject(frame.open.information.source.topic)


def _topic(request: Any) -> Iterable[Subject]:
    yield Subject(request.topic)


def _opened_restore(request: store_v1.RestoreRequest) -> Iterable[Subject]:
    yield Subject(request.open.source.topic)


def _ending(request: store_v1.DeregisterRequest) -> tuple[Verb, ...]:
    """A receiver may leave, and a source may take back a promise that it did not use."""
    if request.receiver_session_id:
        return (Verb.DELETE, Verb.RECEIVE)
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
_LOOKS = _by(Verb.QUERY, Verb.OPERATE)

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
    "DigestState": _Call(_by(Verb.REPLICATE, Verb.QUERY, Verb.OPERATE), _topic),
    "Watch": _Call(_by(Verb.RECEIVE), _watched),
    "Status": _Call(_LOOKS, _pattern),
    "Journal": _Call(_LOOKS, _pattern),
    "Deregister": _Call(_ending, _source),
    "Inventory": _Call(_asking, _source_or_all),
    "Digest": _Call(_by(Verb.REPLICATE, Verb.QUERY, Verb.OPERATE), _source),
    "Archived": _Call(_by(Verb.OPERATE), _source),
    "Repair": _Call(_by(Verb.OPERATE), _source_or_all),
    "AcceptLoss": _Call(_by(Verb.OPERATE), _source),
    "SettleConflict": _Call(_by(Verb.OPERATE), _source),
    "Restore": _Call(_by(Verb.OPERATE), _opened_restore),
}

Refuse = Callable[[Context, AccessDenied], Awaitable[Any]]
"""Ends a call with an error."""


def guarded(service: Any, access: Access, tokens: TokenFile | None, refuse: Refuse) -> Any:
    """Return a service whose calls are checked before this service serves them."""

    def wrapped(method: Any) -> Any:
        call, serve = CALLS[method.name], getattr(service, method.name)

        def check(request: Any, context: Context) -> None:
            verbs, subjects = call.verbs(request), call.subjects(request)
            access.check(names_of(context, tokens), verbs, subjects)

        if method.name == "Append":
            return _with_first_frame(serve, check)
        if method.client_streaming:
            return _with_first_request(serve, check)
        if method.server_streaming:
            return _streaming(serve, check, refuse)
        return _answering(serve, check, refuse)

    return SimpleNamespace(**{method.name: wrapped(method) for method in _SERVICE.methods})


Check = Callable[[Any, Context], None]


def _answering(serve: Any, check: Check, refuse: Refuse) -> Any:
    async def call(request: Any, context: Context) -> Any:
        try:
            check(request, context)
        except AccessDenied as error:
            await refuse(context, error)
        return await serve(request, context)

    return call


def _streaming(serve: Any, check: Check, refuse: Refuse) -> Any:
    async def call(request: Any, context: Context) -> AsyncIterator[Any]:
        try:
            check(request, context)
        except AccessDenied as error:
            await refuse(context, error)
        async with aclosing(serve(request, context)) as responses:
            async for response in responses:
                yield response

    return call


def _with_first_request(serve: Any, check: Check) -> Any:
    async def checked(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
        first = True
        async for request in requests:
            if first:
                check(request, context)
                first = False
            yield request

    async def call(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
        async with aclosing(serve(checked(requests, context), context)) as responses:
            async for response in responses:
                yield response

    return call


def _with_first_frame(serve: Any, check: Check) -> Any:
    async def call(requests: Any, context: Context) -> None:
        await serve(requests, _Opening(context, check))

    return call


class _Opening:
    """The context of a call of Append, which checks the first frame when it is read."""

    def __init__(self, context: Context, check: Check) -> None:
        self._context = context
        self._check = check

    async def read(self) -> Any:
        """Read the first frame. Raises AccessDenied."""
        frame = await self._context.read()
        if isinstance(frame, v1.Frame):
            self._check(frame, self._context)
        # The frames that follow are of the stream that the first one opened.
        self.read = self._context.read  # type: ignore[method-assign]
        return frame

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)
