"""A message as filters see it, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Seen:
    """A message with a document; the rest is the same for all tests."""

    document: Any = None
    topic: str = "orders"
    session: int = 16
    sequence: int = 7
    epoch: int = 2
    time: float = 1_700_000_000.5
    size: int = 200
    key: str | None = "IBM"
    deleted: bool = False
    expires: float | None = 1_700_000_060.5
    properties: Mapping[str, str] = field(default_factory=lambda: {"desk": "london"})
