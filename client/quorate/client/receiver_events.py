"""The events of a receiver: what `Receiver.events` yields and `on_event` gets.

This module only exports names; docs/events.md says when each event comes.
"""

from quorate.receiver.events import (
    DeregistrationComplete,
    DeregistrationSucceeded,
    Event,
    EventsLost,
    Gap,
    NoSourceYet,
    ProxyGone,
    ProxyServes,
    RegistrationChanged,
    RegistrationComplete,
    RegistrationWaiting,
    SourceAttached,
    SourceChanged,
    SourceDetached,
    SourceGone,
    Stalled,
    StoreRefused,
    StoreRegistered,
    StoreReturned,
    StoreUnresponsive,
    WaitingForIdentity,
    Withdrawn,
)
from quorate.receiver.protocol.fetch_plan import Answer

__all__ = [
    "Answer",
    "DeregistrationComplete",
    "DeregistrationSucceeded",
    "Event",
    "EventsLost",
    "Gap",
    "NoSourceYet",
    "ProxyGone",
    "ProxyServes",
    "RegistrationChanged",
    "RegistrationComplete",
    "RegistrationWaiting",
    "SourceAttached",
    "SourceChanged",
    "SourceDetached",
    "SourceGone",
    "Stalled",
    "StoreRefused",
    "StoreRegistered",
    "StoreReturned",
    "StoreUnresponsive",
    "WaitingForIdentity",
    "Withdrawn",
]
