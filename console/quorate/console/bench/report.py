"""The figures of a run, for programs and for people."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from quorate.console.bench.driver import BenchOutcome
from quorate.console.bench.latency import percentiles
from quorate.console.bench.messages import BLOCK
from quorate.console.bench.settings import BenchSettings
from quorate.console.bench.source_process import CHUNK


def figures(settings: BenchSettings, outcome: BenchOutcome) -> dict[str, Any]:
    """Return all figures, under the keys that `-o json` prints."""
    source = outcome.source
    messages: int = source["messages"]
    # A receiver is done when it was handed the last message. The slowest receiver counts.
    delivered_seconds = max(
        ((said["delivered_ns"] - source["began_ns"]) / 1e9 for said in outcome.receivers.values()),
        default=None,
    )
    return {
        "stable_messages_per_second": round(messages / source["seconds"]),
        "delivered_messages_per_second": (
            round(messages / delivered_seconds) if delivered_seconds else None
        ),
        "megabytes_per_second": round(messages * settings.size / source["seconds"] / 1e6, 3),
        "live_latency_ms": percentiles(outcome.live_latencies),
        "stable_latency_ms": percentiles(outcome.stable_latencies),
        "cpu_seconds_per_million": {
            name: round(seconds / messages * 1e6, 3)
            for name, seconds in outcome.cpu_seconds.items()
        },
        "peak_rss_mb": {name: round(rss / 1e6, 1) for name, rss in outcome.peak_rss.items()},
        "longest_stall_ms": round(source["longest_stall_ms"], 3),
        "settings": _settings(settings, outcome),
    }


def _settings(settings: BenchSettings, outcome: BenchOutcome) -> dict[str, Any]:
    paced = settings.rate is not None
    return {
        **asdict(settings),
        "messages": outcome.source["messages"],
        "warm_up_messages": settings.warm_up,
        "seconds": round(outcome.source["seconds"], 3),
        "send_api": "await source.send(payload)",
        "receive_api": "async for message in receiver",
        "latency_sampled_every": 1 if paced else BLOCK,
        "stall_timed_over_sends": 1 if paced else CHUNK,
        "retransmitted_share": _retransmitted_share(outcome),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "quorate": version("quorate"),
        "grpcio": version("grpcio"),
    }


def _retransmitted_share(outcome: BenchOutcome) -> float:
    """Return the share of delivered messages that receivers fetched from stores."""
    blocks = sum(said["messages"] // BLOCK for said in outcome.receivers.values())
    recovered = sum(said["retransmitted_blocks"] for said in outcome.receivers.values())
    return round(recovered / blocks, 4) if blocks else 0.0


def rows(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the figures as rows of a table."""
    return [
        {"figure": title, "value": value, "unit": unit}
        for title, value, unit in (
            ("made stable", _number(result["stable_messages_per_second"]), "messages/s"),
            ("delivered", _number(result["delivered_messages_per_second"]), "messages/s"),
            ("payload made stable", _number(result["megabytes_per_second"]), "MB/s"),
            ("source to receiver", _three(result["live_latency_ms"]), "ms, p50 / p99 / p99.9"),
            ("send to stable", _three(result["stable_latency_ms"]), "ms, p50 / p99 / p99.9"),
            ("longest stall of a send", _number(result["longest_stall_ms"]), "ms"),
            *(
                (f"CPU of {name}", _number(seconds), "s for a million messages")
                for name, seconds in result["cpu_seconds_per_million"].items()
            ),
            *(
                (f"peak memory of {name}", _number(size), "MB")
                for name, size in result["peak_rss_mb"].items()
            ),
            *(
                (f"setting {name}", "-" if value is None else str(value), "")
                for name, value in result["settings"].items()
            ),
        )
    ]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.3g}"


def _three(latencies: dict[str, float | None]) -> str:
    return " / ".join("-" if value is None else f"{value:.2f}" for value in latencies.values())
