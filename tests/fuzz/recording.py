"""A plug-in of pytest that adds the messages of tests to the corpus of the fuzzer.

    python -m pytest -p tests.fuzz.recording tests/store/rpc

Servers in the process of the tests are listened to: what they read and what they answer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from tests.fuzz import corpus

from quorate.v1.store_pb2 import StatusResponse

_found: dict[str, dict[str, bytes]] = {}


def _note(message: object) -> None:
    if not isinstance(message, Message) or message.ByteSize() > corpus.INPUT_BYTES_MAX:
        return
    known = _found.setdefault(message.DESCRIPTOR.name, {})
    if isinstance(message, StatusResponse) and message.data_directory:
        message = StatusResponse.FromString(message.SerializeToString())
        message.data_directory = "/data"  # not that of the machine which records
    shape = corpus.shape_of(message)
    if len(known) < corpus.INPUTS_MAX:
        known.setdefault(shape, message.SerializeToString())


def _listened(make: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(make)
    def made(
        behaviour: Any, request_deserializer: Any = None, response_serializer: Any = None
    ) -> Any:
        def read(data: bytes) -> Any:
            message = request_deserializer(data)
            _note(message)
            return message

        def written(message: Any) -> bytes:
            _note(message)
            data: bytes = response_serializer(message)
            return data

        return make(
            behaviour,
            request_deserializer and read,
            response_serializer and written,
        )

    return made


def pytest_configure() -> None:
    """Listen to every server that is made from now on."""
    for kind, message in corpus.kinds().items():
        _found[kind] = {
            corpus.shape_of(message.FromString(each)): each for each in corpus.inputs(kind)
        }
    for name in ("unary_unary", "unary_stream", "stream_unary", "stream_stream"):
        name = f"{name}_rpc_method_handler"
        setattr(grpc, name, _listened(getattr(grpc, name)))


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Write what was found."""
    for kind, known in _found.items():
        if known and kind in corpus.kinds():
            corpus.write(kind, known.values())
