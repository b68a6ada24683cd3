"""The standard services of gRPC: health, and reflection, which names the calls of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import grpc.aio
from grpc_health.v1 import health, health_pb2
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server
from grpc_reflection.v1alpha import reflection

from quorate.v1 import store_pb2 as store_v1

LOOK_SECONDS = 0.5
"""The time after which health says that a store has become ready, or no longer is."""
_STORE = store_v1.DESCRIPTOR.services_by_name["Store"].full_name
_SERVICES = ("", _STORE)
"""The names under which clients ask. The empty one stands for the server as a whole."""


class HealthService:
    """The health service of one store. It asks for no identity: it says nothing about messages."""

    def __init__(self, why_not_ready: Callable[[], str]) -> None:
        """why_not_ready: says why no client should be sent to the store; empty: it is ready."""
        self._why_not_ready = why_not_ready
        self._servicer = health.aio.HealthServicer()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Let a server that has not started yet serve health and reflection."""
        add_HealthServicer_to_server(self._servicer, server)
        reflection.enable_server_reflection(
            (_STORE, health.SERVICE_NAME, reflection.SERVICE_NAME), server
        )

    async def run(self) -> None:
        """Say whether the store is ready, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Say whether the store is ready now."""
        codes = health_pb2.HealthCheckResponse
        code = codes.NOT_SERVING if self._why_not_ready() else codes.SERVING
        for name in _SERVICES:
            await self._servicer.set(name, code)

    async def stop(self) -> None:
        """Say that the store is not ready, from now on."""
        await self._servicer.enter_graceful_shutdown()
