"""The receiver SDK: open a `Receiver` and iterate over it.

Start with `receiver`, which applications use, and `io.source_session`, which follows one source.
The rules have no I/O: `protocol.stream` merges in order, `protocol.fetch_plan` knows what to fetch
and what is lost, `protocol.consumed` counts what may be acknowledged. `blocking` is for code
without asyncio.
"""

from quorate.protocol.consensus import Behaviour, StartingPoint
from quorate.protocol.delivery import Delivery
from quorate.protocol.payloads import PayloadFormat
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
from quorate.receiver.message import DeliveredBatch, Message, MessageHandle
from quorate.receiver.options import AcknowledgeMode, ConfirmDelivery, ReceiverOptions
from quorate.receiver.protocol.fetch_plan import Answer
from quorate.receiver.receiver import Receiver
from quorate.receiver.start import Start

__all__ = [
    "AcknowledgeMode",
    "Answer",
    "Behaviour",
    "ConfirmDelivery",
    "DeliveredBatch",
    "Delivery",
    "DeregistrationComplete",
    "DeregistrationSucceeded",
    "Event",
    "EventsLost",
    "Gap",
    "Message",
    "MessageHandle",
    "NoSourceYet",
    "PayloadFormat",
    "ProxyGone",
    "ProxyServes",
    "Receiver",
    "ReceiverOptions",
    "RegistrationChanged",
    "RegistrationComplete",
    "RegistrationWaiting",
    "SourceAttached",
    "SourceChanged",
    "SourceDetached",
    "SourceGone",
    "Stalled",
    "Start",
    "StartingPoint",
    "StoreRefused",
    "StoreRegistered",
    "StoreReturned",
    "StoreUnresponsive",
    "WaitingForIdentity",
    "Withdrawn",
]
