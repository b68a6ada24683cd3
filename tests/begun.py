"""Values for tests that have a begin record, with fields of it changed."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

from quorate.protocol.begin import BeginRecord
from quorate.protocol.lineage import NO_LINEAGE, Lineage, Term
from quorate.protocol.policy import Membership
from quorate.protocol.wire import begin_to_wire
from quorate.v1 import messages_pb2 as v1

A = TypeVar("A")
_OF_RECORD = {field.name for field in fields(BeginRecord)}


def rebegun(value: A, *, epoch: int | None = None, **changed: Any) -> A:
    """Return a value with these fields changed: its own, and those of its begin record.

    epoch: the only one of the new lineage; 0: nothing was begun.
    """
    if epoch is not None:
        changed["lineage"] = Lineage((Term(epoch, 0),)) if epoch else NO_LINEAGE
    holder: Any = value
    begun = {name: changed.pop(name) for name in _OF_RECORD & changed.keys()}
    result: A = replace(holder, begun=replace(holder.begun, **begun), **changed)
    return result


def begun_in(epoch: int, membership: Membership | None = None) -> v1.BeginRecord:
    """Return the message of a begin in this epoch, whose lineage names no other one."""
    return begin_to_wire(BeginRecord(Lineage((Term(epoch, 0),)), membership))
