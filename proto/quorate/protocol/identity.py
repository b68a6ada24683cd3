"""Names of topics, sessions, sources and stores: the valid ones, and how people write them.

Nothing here knows about registrations.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from quorate.protocol.addresses import normal_address, place_of
from quorate.protocol.errors import InvalidArgument
from quorate.protocol.limits import REG_ID_MAX, SESSION_ID_MAX, TOPIC_BYTES_MAX


def check_topic(topic: str) -> str:
    """Return the topic unchanged. Raises InvalidArgument with the reason."""
    if not isinstance(topic, str):
        raise InvalidArgument("topic", f"{topic!r} is not text")
    if not topic:
        raise InvalidArgument("topic", "is empty; give it a name")
    # First, because a lone surrogate is not printable, and cannot be encoded either.
    if not topic.isprintable():
        raise InvalidArgument("topic", "has control characters; use printable ones")
    if len(topic.encode()) > TOPIC_BYTES_MAX:
        raise InvalidArgument("topic", f"is longer than {TOPIC_BYTES_MAX} bytes; shorten it")
    return topic


def check_session_id(session_id: int) -> int:
    """Return the session ID unchanged. Raises InvalidArgument."""
    if not isinstance(session_id, int) or isinstance(session_id, bool):
        raise InvalidArgument("session ID", f"{session_id!r} is not a whole number")
    if not 0 < session_id <= SESSION_ID_MAX:
        raise InvalidArgument(
            "session ID", f"{session_id:#x} is not between 1 and {SESSION_ID_MAX:#x}"
        )
    return session_id


def check_reg_id(reg_id: int) -> int:
    """Return the RegID unchanged. Raises InvalidArgument."""
    if not isinstance(reg_id, int) or isinstance(reg_id, bool):
        raise InvalidArgument("reg_id", f"{reg_id!r} is not a whole number")
    if not 0 < reg_id <= REG_ID_MAX:
        raise InvalidArgument("reg_id", f"{reg_id} is not between 1 and {REG_ID_MAX}")
    return reg_id


def parse_session_id(text: str) -> int:
    """Return the session ID of a text: decimal, or hexadecimal after 0x. Raises InvalidArgument."""
    try:
        return check_session_id(int(text, 16 if text.lower().startswith("0x") else 10))
    except ValueError:
        raise InvalidArgument(
            "session ID", f"{text!r} is neither a decimal number nor 0x and hexadecimal digits"
        ) from None


class SourceName(NamedTuple):
    """The name of a source, the same on every store."""

    topic: str
    session_id: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.session_id:#x}"

    @staticmethod
    def parse(text: str) -> SourceName:
        """Return the source of a text `TOPIC/SESSION`. Raises InvalidArgument."""
        topic, _, session = text.rpartition("/")
        if not topic:
            raise InvalidArgument("source", f"{text!r} is not of the form TOPIC/SESSION")
        return SourceName(topic, parse_session_id(session)).checked()

    def checked(self) -> SourceName:
        """Return this name unchanged. Raises InvalidArgument if it cannot be one."""
        check_topic(self.topic)
        check_session_id(self.session_id)
        return self


@dataclass(frozen=True, slots=True, order=True)
class StoreAddress:
    """A store's name and address, as sources and receivers are given them."""

    name: str
    """The store's name in policies. A store without a name is called by the usual spelling of its
    address: 127.0.0.1:7301 for localhost:7301."""
    address: str
    """host:port"""
    reg_id: int = 0
    """The RegID that the application chose there; 0 leaves it to the store."""

    @staticmethod
    def parse(text: str) -> StoreAddress:
        """Return the store of a text `[name=]host:port[#reg_id]`. Raises InvalidArgument.

        Each spelling of an address makes the same store.
        """
        match = re.fullmatch(
            r"\s*(?:(?P<name>[\w.-]+)=)?(?P<address>[^\s,=#/]+:\d{1,20})(?:#(?P<reg_id>\d{1,20}))?\s*",
            text,
        )
        if match is None:
            raise InvalidArgument(
                "store",
                f"{text!r} is not of the form [name=]host:port[#reg_id], as a=127.0.0.1:7301",
            )
        address = match["address"]
        if not 0 < int(address.rpartition(":")[2]) < 65536:
            raise InvalidArgument("store", f"{text!r} has no port between 1 and 65535")
        reg_id = match["reg_id"]
        if reg_id is not None and not 0 < int(reg_id) <= REG_ID_MAX:
            raise InvalidArgument(
                "store", f"{text!r} has a RegID that is not between 1 and {REG_ID_MAX}"
            )
        return StoreAddress(
            match["name"] or place_of(address), normal_address(address), int(reg_id or 0)
        )


def parse_stores(text: str) -> tuple[StoreAddress, ...]:
    """Return the stores of a text, separated by commas.

    Raises InvalidArgument, also if two stores have one name or one address.
    """
    stores = tuple(StoreAddress.parse(part) for part in text.split(",") if part.strip())
    if not stores:
        raise InvalidArgument("stores", "none given; name them as a=host:port,b=host:port,…")
    check_distinct(stores)
    return stores


def parse_addresses(text: str) -> tuple[str, ...]:
    """Return host:port of each store of a text, as `parse_stores` does."""
    return tuple(store.address for store in parse_stores(text))


def check_distinct(stores: Sequence[StoreAddress]) -> None:
    """Raise InvalidArgument if two stores have one name or one address, in any spelling."""
    for one, other in combinations(stores, 2):
        if one.address == other.address:
            raise InvalidArgument("stores", f"{one.address} is given twice; name each store once")
        if place_of(one.address) == place_of(other.address):
            raise InvalidArgument(
                "stores",
                f"{one.address} and {other.address} are one address; name each store once",
            )
        if one.name == other.name:
            raise InvalidArgument(
                "stores",
                f"{one.address} and {other.address} are both called {one.name}; give each store a "
                "name of its own",
            )
