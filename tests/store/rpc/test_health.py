"""The standard services of gRPC: health says if a store is ready, reflection names its calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tests.store.support import configuration, running

from quorate.store.node import StoreNode

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


async def health_of(address: str, service: str = "") -> int:
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=20)
        return int(answer.status)


async def until_health(address: str, status: int) -> None:
    """Return when the store says so of itself."""
    async with grpc.aio.insecure_channel(address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        async for answer in stub.Watch(health_pb2.HealthCheckRequest(), timeout=20):
            if answer.status == status:
                return


async def test_a_store_that_serves_is_healthy(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        await until_health(node.address, SERVING)
        assert await health_of(node.address, "quorate.v1.Store") == SERVING


async def test_a_store_in_limbo_is_not(tmp_path: Path) -> None:
    node = StoreNode(configuration(tmp_path, peers=("127.0.0.1:1",)))
    await node.start()
    try:
        await until_health(node.address, NOT_SERVING)
    finally:
        await node.stop()


async def test_reflection_names_the_services(tmp_path: Path) -> None:
    async with running(tmp_path) as node, grpc.aio.insecure_channel(node.address) as channel:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)  # type: ignore[arg-type]
        question: Any = reflection_pb2.ServerReflectionRequest(list_services="")
        call = stub.ServerReflectionInfo(iter([question]))
        answer = await anext(aiter(call))
        names = {each.name for each in answer.list_services_response.service}
        assert {"quorate.v1.Store", "grpc.health.v1.Health"} <= names
        call.cancel()
