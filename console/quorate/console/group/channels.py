"""The channels of a command to stores: secure if the settings of the process say so.

What is said on a channel is not known here.
"""

from __future__ import annotations

import os

import grpc.aio

from quorate.protocol.tls import tls_of_environment
from quorate.transport import channels


def open_channel(address: str) -> grpc.aio.Channel:
    """Return a channel to host:port, which connects on first use. Raises ConfigurationInvalid."""
    return channels.open_channel(address, tls_of_environment(os.environ))
