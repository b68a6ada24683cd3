"""Quorate's errors across gRPC: from an error to a failed call, and back.

A failed call carries the error's class and fields in its trailing metadata. The status code is for
tools that know only gRPC.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from quorate.protocol.errors import (
    AccessDenied,
    BatchRefused,
    CorruptBatch,
    EpochTooFar,
    Fenced,
    InLimbo,
    InvalidArgument,
    LimitReached,
    MissingMessages,
    NotAStore,
    OutOfOrder,
    PastUnavailable,
    PositionNotReached,
    QueueElsewhere,
    QuorateError,
    RegIdInUse,
    SourceActive,
    StateUnavailable,
    StorageFailed,
    StorageUnreadable,
    StoreFull,
    StoreLags,
    StoreStopping,
    TakenOver,
    TlsFailed,
    TooManyRegistrations,
    TooManySubscriptions,
    TopicHasNoKeys,
    TopicRefused,
    UnknownBookmark,
    UnknownQueue,
    UnknownTopic,
    Unreachable,
    VersionMismatch,
)
from quorate.protocol.identity import StoreAddress
from quorate.protocol.limits import PROTOCOL_VERSION, PROTOCOL_VERSIONS
from quorate.transport.tls_probe import speaks_tls
from quorate.v1.messages_pb2 import Failure

_METADATA_KEY = "quorate-failure-bin"

_STATUS: dict[type[QuorateError], grpc.StatusCode] = {
    AccessDenied: grpc.StatusCode.PERMISSION_DENIED,
    BatchRefused: grpc.StatusCode.FAILED_PRECONDITION,
    CorruptBatch: grpc.StatusCode.DATA_LOSS,
    EpochTooFar: grpc.StatusCode.OUT_OF_RANGE,
    Fenced: grpc.StatusCode.ABORTED,
    InLimbo: grpc.StatusCode.UNAVAILABLE,
    InvalidArgument: grpc.StatusCode.INVALID_ARGUMENT,
    LimitReached: grpc.StatusCode.RESOURCE_EXHAUSTED,
    MissingMessages: grpc.StatusCode.FAILED_PRECONDITION,
    OutOfOrder: grpc.StatusCode.OUT_OF_RANGE,
    QueueElsewhere: grpc.StatusCode.UNAVAILABLE,
    RegIdInUse: grpc.StatusCode.ALREADY_EXISTS,
    SourceActive: grpc.StatusCode.ALREADY_EXISTS,
    StateUnavailable: grpc.StatusCode.UNAVAILABLE,
    StorageFailed: grpc.StatusCode.INTERNAL,
    TakenOver: grpc.StatusCode.ABORTED,
    StorageUnreadable: grpc.StatusCode.INTERNAL,
    StoreFull: grpc.StatusCode.RESOURCE_EXHAUSTED,
    StoreLags: grpc.StatusCode.UNAVAILABLE,
    StoreStopping: grpc.StatusCode.UNAVAILABLE,
    TooManyRegistrations: grpc.StatusCode.RESOURCE_EXHAUSTED,
    TooManySubscriptions: grpc.StatusCode.RESOURCE_EXHAUSTED,
    PastUnavailable: grpc.StatusCode.OUT_OF_RANGE,
    PositionNotReached: grpc.StatusCode.UNAVAILABLE,
    TopicHasNoKeys: grpc.StatusCode.FAILED_PRECONDITION,
    TopicRefused: grpc.StatusCode.PERMISSION_DENIED,
    UnknownBookmark: grpc.StatusCode.NOT_FOUND,
    UnknownQueue: grpc.StatusCode.NOT_FOUND,
    UnknownTopic: grpc.StatusCode.NOT_FOUND,
    VersionMismatch: grpc.StatusCode.FAILED_PRECONDITION,
}

# Characters. gRPC drops an error whose metadata passes 16 KiB, so a long list of names in an error
# would hide the error.
_TEXT_MAX = 1000

# gRPC's texts for a port where another service answers.
# Silence is not among them: a store that is paused is silent too.
_NOT_GRPC = ("http1", "Failed parsing HTTP/2", "unexpected content-type")

_BROKEN_OFF = "Internal error from Core"
"""gRPC's text for a call that this end could not begin or go on with."""

_TLS_TROUBLES = {
    "certificate has expired": "the certificate of the other end has expired",
    "certificate is not yet valid": "the certificate of the other end is not valid yet",
    "CERTIFICATE_VERIFY_FAILED": "no authority that `ca` names has made the certificate of the "
    "other end",
    "Hostname Verification Check failed": "the certificate of the other end does not name this "
    "host",
    "WRONG_VERSION_NUMBER": "this end speaks TLS, the other end does not",
    "security handshaker": "the TLS files of this end cannot be used",
}
"""gRPC's texts for TLS that fails, and what they mean. The first that is found counts."""

_NOT_CONNECTED = "failed to connect to all addresses"
_CLOSED, _HANDSHAKE = "Socket closed", "handshake failed"
_CLOSED_AT_ONCE = (
    "the other end closes the connection before it answers. Either it speaks TLS, and this end "
    "does not. Or it refuses the certificate of this end. There may be none, it may have expired, "
    "or be of an authority that the other end does not know"
)


def failure_to_wire(error: QuorateError) -> Failure:
    """Return the message of an error, for answers that carry errors in their body."""
    return Failure(
        kind=type(error).__name__,
        message=_clipped(str(error)),
        fields={name: _clipped(value) for name, value in error.facts().items()},
    )


def _clipped(text: str) -> str:
    """Return the text as it can travel: not too long, and in characters that UTF-8 has."""
    text = text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"
    return text.encode(errors="replace").decode()


def failure_from_wire(failure: Failure, address: str) -> QuorateError:
    """Return the error that a peer reported; an unknown class becomes Unreachable with its text."""
    error = QuorateError.from_facts(failure.kind, dict(failure.fields))
    return error or Unreachable(address, failure.message)


async def abort(context: grpc.aio.ServicerContext[Any, Any], error: QuorateError) -> NoReturn:
    """End a call on the server with this error."""
    code = _STATUS.get(type(error), grpc.StatusCode.FAILED_PRECONDITION)
    failure = failure_to_wire(error)
    metadata = ((_METADATA_KEY, failure.SerializeToString()),)
    await context.abort(code, failure.message, metadata)
    raise AssertionError("abort returned")


def failure_of_abort(code: grpc.StatusCode, details: str, metadata: Iterable[Any]) -> Failure:
    """Return the failure with which `abort` has ended a call, from what it gave to gRPC."""
    for key, value in metadata:
        if key == _METADATA_KEY:
            return Failure.FromString(value)
    return Failure(message=details or code.name)


def error_from_call(address: str, error: grpc.aio.AioRpcError) -> QuorateError:
    """Return the error that a failed call to this address stands for."""
    return _meaning(address, error.code(), error.details(), error.trailing_metadata())


def error_from_blocking_call(address: str, error: grpc.RpcError) -> QuorateError:
    """Return the error that a failed call without asyncio stands for."""
    call: Any = error  # is a grpc.Call, too
    return _meaning(address, call.code(), call.details(), call.trailing_metadata())


class errors_of:
    """Raise one of Quorate's errors if the call to this address fails or exceeds its time.

    A connection lasts as long as one of its calls is referred to. So no frame of the failed call
    stays with the error: a generator's frames would, from Python 3.12 on.
    """

    __slots__ = ("_address",)

    def __init__(self, address: str) -> None:
        """address: of the peer that is called in the block."""
        self._address = address

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        """Raise what the error of the block means, if a call failed."""
        del trace
        if isinstance(error, grpc.aio.AioRpcError):
            raise error_from_call(self._address, error.with_traceback(None)) from None
        if isinstance(error, grpc.aio.UsageError):  # This end has closed the channel meanwhile.
            raise Unreachable(self._address, "this end closed the connection") from None
        if isinstance(error, TimeoutError):
            raise Unreachable(self._address, "it did not answer in time") from None


class errors_of_queues(errors_of):
    """Raise UnknownQueue, too, where a store dispatches no queues: it does not know the calls."""

    __slots__ = ("_queue", "_store")

    def __init__(self, store: StoreAddress, queue: str) -> None:
        """store: the store that is called in the block."""
        super().__init__(store.address)
        self._store = store.name
        self._queue = queue

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise what the error of the block means, if a call failed."""
        match error:
            case grpc.aio.AioRpcError() if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                raise UnknownQueue(self._queue, self._store) from None
        super().__exit__(kind, error, trace)


def _meaning(
    address: str, code: grpc.StatusCode, details: str | None, metadata: Iterable[Any] | None
) -> QuorateError:
    for key, value in metadata or ():
        if key == _METADATA_KEY and isinstance(value, bytes):
            try:
                return failure_from_wire(Failure.FromString(value), address)
            except DecodeError:
                break
    detail = details or code.name
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return NotAStore(
            address,
            "it does not know this call: it is another service, or a store of an older version",
        )
    if any(hint.lower() in detail.lower() for hint in _NOT_GRPC):
        return NotAStore(address, detail)
    if detail == _BROKEN_OFF:
        return Unreachable(address, "the call broke off on this end")
    if trouble := _tls_trouble(address, detail):
        return TlsFailed(address, trouble)
    return Unreachable(address, detail)


def _tls_trouble(address: str, detail: str) -> str:
    """Return what is wrong with TLS; empty if the call failed for another reason."""
    if not detail.startswith(_NOT_CONNECTED):
        return ""
    # A server says nothing to a client whose handshake it refuses.
    if detail.endswith(_CLOSED):
        return _CLOSED_AT_ONCE if speaks_tls(address) else ""
    found = next((means for text, means in _TLS_TROUBLES.items() if text in detail), "")
    return found or (f"the handshake fails ({detail})" if _HANDSHAKE in detail else "")


def check_version(address: str, theirs: int) -> None:
    """Raise VersionMismatch unless the peer speaks a version that this side understands."""
    if theirs not in PROTOCOL_VERSIONS:
        raise VersionMismatch(address, PROTOCOL_VERSION, theirs)
