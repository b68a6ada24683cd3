"""The corpus of the fuzzer: valid inputs, one file for each kind, that its changes begin with.

A file has one input a line, in base64. `python -m pytest -p tests.fuzz.recording` adds messages
that tests send, if their shape is new: which fields are set, and how deep.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from google.protobuf import message_factory
from google.protobuf.message import Message

from quorate.v1 import messages_pb2, peer_pb2, source_pb2, store_pb2

_DIRECTORY = Path(__file__).parent / "corpus"
INPUT_BYTES_MAX = 2048
INPUTS_MAX = 40
"""The most inputs of a kind."""


def kinds() -> dict[str, type[Message]]:
    """Return every message that travels by itself: requests, responses and frames, by its name."""
    found: dict[str, type[Message]] = {}
    for module in (store_pb2, source_pb2, peer_pb2):
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                for descriptor in (method.input_type, method.output_type):
                    found[descriptor.name] = message_factory.GetMessageClass(descriptor)
    return {**found, "Failure": messages_pb2.Failure}


@cache
def inputs(kind: str) -> tuple[bytes, ...]:
    """Return the inputs of a kind; none if it has no file."""
    path = _DIRECTORY / f"{kind}.b64"
    lines = path.read_text().split() if path.exists() else []
    return tuple(map(base64.b64decode, lines))


def write(kind: str, found: Iterable[bytes]) -> None:
    """Replace the inputs of a kind."""
    lines = sorted({base64.b64encode(each).decode() for each in found}, key=len)
    (_DIRECTORY / f"{kind}.b64").write_text("".join(f"{line}\n" for line in lines))


def shape_of(message: Message) -> str:
    """Return which fields of a message are set, and of which sub-messages, as a text."""
    parts: list[str] = []
    for field, value in message.ListFields():
        if field.message_type is None or hasattr(value, "items"):
            parts.append(field.name)
        elif hasattr(value, "extend"):
            shapes = sorted({shape_of(each) for each in value})
            parts.append(f"{field.name}[{'|'.join(shapes)}]")
        else:
            parts.append(f"{field.name}({shape_of(value)})")
    return ",".join(parts)
