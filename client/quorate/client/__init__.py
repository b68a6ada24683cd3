"""Quorate for applications: connect to the stores, then open sources and receivers.

    async with connect("a=host:7301,b=host:7302,c=host:7303") as quorate:
        async with quorate.source("orders") as orders:
            receipt = await orders.publish(b"…")  # stable

`connect_blocking` returns the same for code without asyncio. The errors are in quorate.errors, the
events in `source_events` and `receiver_events`. This module only exports names.
"""

from quorate.client import receiver_events, replay, source_events
from quorate.client.blocking import connect_blocking
from quorate.client.client import Client, connect
from quorate.consumer.consumer import Consumer
from quorate.consumer.job import Job
from quorate.consumer.settling import Settling
from quorate.protocol.consensus import Behaviour, StartingPoint
from quorate.protocol.delays import Delays
from quorate.protocol.delivery import Delivery
from quorate.protocol.identity import SourceName, StoreAddress
from quorate.protocol.layout import Layout, StoreGroup
from quorate.protocol.pacing import ReceiverPacing
from quorate.protocol.payloads import PayloadFormat
from quorate.protocol.policy import Group, IntergroupRule, IntragroupRule, Policy
from quorate.protocol.tls import Tls
from quorate.receiver.message import DeliveredBatch, Message, MessageHandle
from quorate.receiver.options import AcknowledgeMode, ConfirmDelivery, ReceiverOptions
from quorate.receiver.receiver import Receiver
from quorate.receiver.start import Start
from quorate.source.options import FlightBehaviour, SourceOptions, StabilityEvents, WithoutQuorum
from quorate.source.protocol.outgoing import Outgoing
from quorate.source.protocol.unstable import UnstableMessage
from quorate.source.publish_store import FilePublishStore, MemoryPublishStore, PublishStore
from quorate.source.receipts import Durability, Receipt
from quorate.source.source import Source
from quorate.subscriber.rows import Rows
from quorate.subscriber.state import State
from quorate.subscriber.subscriber import Subscriber

__all__ = [
    "AcknowledgeMode",
    "Behaviour",
    "Client",
    "ConfirmDelivery",
    "Consumer",
    "Delays",
    "DeliveredBatch",
    "Delivery",
    "Durability",
    "FilePublishStore",
    "FlightBehaviour",
    "Group",
    "IntergroupRule",
    "IntragroupRule",
    "Job",
    "Layout",
    "MemoryPublishStore",
    "Message",
    "MessageHandle",
    "Outgoing",
    "PayloadFormat",
    "Policy",
    "PublishStore",
    "Receipt",
    "Receiver",
    "ReceiverOptions",
    "ReceiverPacing",
    "Rows",
    "Settling",
    "Source",
    "SourceName",
    "SourceOptions",
    "StabilityEvents",
    "Start",
    "StartingPoint",
    "State",
    "StoreAddress",
    "StoreGroup",
    "Subscriber",
    "Tls",
    "UnstableMessage",
    "WithoutQuorum",
    "connect",
    "connect_blocking",
    "receiver_events",
    "replay",
    "source_events",
]
