"""Quorate's errors across gRPC, both ways.

A failed call carries the error's class and fields in its trailing metadata; the status code is for
tools that know only gRPC.
"""

from __future__ import annotations

from typing import Any, NoReturn

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from quorate.protocol.errors import (
    CorruptBatch,
    Fenced,
    InvalidArgument,
    MissingMessages,
    NotAStore,
    OutOfOrder,
    QuorateError,
    RegIdInUse,
    SourceActive,
    StorageFailed,
    StoreStopping,
    TopicRefused,
    UnknownTopic,
    Unreachable,
    VersionMismatch,
)
from quorate.protocol.limits import PROTOCOL_VERSION
from quorate.v1.messages_pb2 import Failure

_METADATA_KEY = "quorate-failure-bin"

_STATUS: dict[type[QuorateError], grpc.StatusCode] = {
    CorruptBatch: grpc.StatusCode.DATA_LOSS,
    Fenced: grpc.StatusCode.ABORTED,
    InvalidArgument: grpc.StatusCode.INVALID_ARGUMENT,
    MissingMessages: grpc.StatusCode.FAILED_PRECONDITION,
    OutOfOrder: grpc.StatusCode.OUT_OF_RANGE,
    RegIdInUse: grpc.StatusCode.ALREADY_EXISTS,
    SourceActive: grpc.StatusCode.ALREADY_EXISTS,
    StorageFailed: grpc.StatusCode.INTERNAL,
    StoreStopping: grpc.StatusCode.UNAVAILABLE,
    TopicRefused: grpc.StatusCode.PERMISSION_DENIED,
    UnknownTopic: grpc.StatusCode.NOT_FOUND,
    VersionMismatch: grpc.StatusCode.FAILED_PRECONDITION,
}

# What gRPC says when something other than gRPC answers on the port.
_NOT_GRPC = ("http1", "HTTP/2", "settings frame", "unexpected content-type", "Protocol error")


def failure_to_wire(error: QuorateError) -> Failure:
    """An error as a message, for answers that carry errors in their body."""
    return Failure(kind=type(error).__name__, message=str(error), fields=error.facts())


def failure_from_wire(failure: Failure, address: str) -> QuorateError:
    """The error that a peer reported; an unknown kind becomes Unreachable with its text."""
    error = QuorateError.from_facts(failure.kind, dict(failure.fields))
    return error or Unreachable(address, failure.message)


async def abort(context: grpc.aio.ServicerContext[Any, Any], error: QuorateError) -> NoReturn:
    """End a call on the server with this error."""
    code = _STATUS.get(type(error), grpc.StatusCode.FAILED_PRECONDITION)
    metadata = ((_METADATA_KEY, failure_to_wire(error).SerializeToString()),)
    await context.abort(code, str(error), metadata)
    raise AssertionError("abort returned")


def error_from_call(address: str, error: grpc.aio.AioRpcError) -> QuorateError:
    """What a failed call to that address means."""
    for key, value in error.trailing_metadata() or ():
        if key == _METADATA_KEY and isinstance(value, bytes):
            try:
                return failure_from_wire(Failure.FromString(value), address)
            except DecodeError:
                break
    detail = error.details() or error.code().name
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return NotAStore(address, "it does not know this call")
    if any(hint.lower() in detail.lower() for hint in _NOT_GRPC):
        return NotAStore(address, detail)
    return Unreachable(address, detail)


def check_version(address: str, theirs: int) -> None:
    """Raise VersionMismatch unless the peer speaks our protocol version."""
    if theirs != PROTOCOL_VERSION:
        raise VersionMismatch(address, PROTOCOL_VERSION, theirs)
