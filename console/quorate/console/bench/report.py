"""The figures of a run, for programs and for people."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from quorate.console.bench.driver import BenchOutcome
from quorate.console.bench.latency import percentiles
from quorate.console.bench.repeats import RANGES
from quorate.console.bench.settings import BenchSettings
from quorate.console.bench.source_process import CHUNK


def figures(settings: BenchSettings, outcome: BenchOutcome) -> dict[str, Any]:
    """Return all figures, under the keys that `-o json` prints."""
    messages, seconds = outcome.messages, outcome.seconds
    # A receiver is done when it was handed the last message. The slowest receiver counts.
    delivered_seconds = max(
        ((said["delivered_ns"] - outcome.began_ns) / 1e9 for said in outcome.receivers.values()),
        default=None,
    )
    cpu_seconds = outcome.cpu_seconds | {"all": sum(outcome.cpu_seconds.values())}
    stalls = (said["longest_stall_ms"] for said in outcome.sources.values())
    return {
        "stable_messages_per_second": round(messages / seconds),
        "delivered_messages_per_second": (
            round(messages / delivered_seconds) if delivered_seconds else None
        ),
        "megabytes_per_second": round(messages * settings.size / seconds / 1e6, 3),
        "live_latency_ms": percentiles(outcome.live_latencies),
        "stable_latency_ms": percentiles(outcome.stable_latencies),
        "longest_stall_ms": round(max(stalls), 3),
        "cpu_seconds": {role: round(used, 3) for role, used in cpu_seconds.items()},
        "cpu_seconds_per_million": {
            role: round(used / messages * 1e6, 3) for role, used in cpu_seconds.items()
        },
        "peak_rss_mb": {role: round(rss / 1e6, 1) for role, rss in outcome.peak_rss.items()},
        "settings": _settings(settings, outcome),
    }


def _settings(settings: BenchSettings, outcome: BenchOutcome) -> dict[str, Any]:
    paced = settings.rate is not None
    return {
        **asdict(settings),
        "messages": outcome.messages,
        "warm_up": settings.each_warm_up * settings.all_sources,
        "seconds": round(outcome.seconds, 3),
        "send_api": "await source.send(payload)",
        "receive_api": "async for message in receiver",
        "latency_sampled_every": 1 if paced else settings.block,
        "stall_timed_over_sends": 1 if paced else min(CHUNK, settings.block),
        "retransmitted_share": _retransmitted_share(settings, outcome),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "quorate": version("quorate"),
        "grpcio": version("grpcio"),
    }


def _retransmitted_share(settings: BenchSettings, outcome: BenchOutcome) -> float:
    """Return the share of delivered messages that receivers fetched from stores."""
    blocks = sum(said["messages"] // settings.block for said in outcome.receivers.values())
    recovered = sum(said["retransmitted_blocks"] for said in outcome.receivers.values())
    return round(recovered / blocks, 4) if blocks else 0.0


def rows(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the figures as rows of a table. Those of several runs have their ranges beside."""
    ranges = result.get(RANGES)
    found = []
    for title, key, show, unit in _FIGURES:
        row = {"figure": title, "value": show(result[key]), "unit": unit}
        found.append(_with_range(row, ranges, key))
    for key, title, unit in _FIGURES_BY_ROLE:
        for role, value in result[key].items():
            row = {"figure": f"{title} of {role}", "value": _number(value), "unit": unit}
            found.append(_with_range(row, ranges, key, role))
    for name, value in result["settings"].items():
        row = {"figure": f"setting {name}", "value": "-" if value is None else str(value)}
        found.append(_with_range(row | {"unit": ""}, ranges))
    return found


def _with_range(row: dict[str, Any], ranges: dict[str, Any] | None, *path: str) -> dict[str, Any]:
    """Return a row with its range; None: of one run, whose table has no ranges."""
    if ranges is None:
        return row
    least_and_greatest: Any = ranges if path else None
    for name in path:
        least_and_greatest = least_and_greatest.get(name, {})
    if isinstance(least_and_greatest, dict):
        # Of percentiles, the range of the median.
        least_and_greatest = least_and_greatest.get("p50")
    text = " to ".join(map(_number, least_and_greatest)) if least_and_greatest else ""
    return row | {"range": text}


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.3g}"


def _three(latencies: dict[str, float | None]) -> str:
    return " / ".join("-" if value is None else f"{value:.2f}" for value in latencies.values())


_FIGURES: tuple[tuple[str, str, Callable[[Any], str], str], ...] = (
    ("made stable", "stable_messages_per_second", _number, "messages/s"),
    ("delivered", "delivered_messages_per_second", _number, "messages/s"),
    ("payload made stable", "megabytes_per_second", _number, "MB/s"),
    ("source to receiver", "live_latency_ms", _three, "ms, p50 / p99 / p99.9"),
    ("send to stable", "stable_latency_ms", _three, "ms, p50 / p99 / p99.9"),
    ("longest stall of a send", "longest_stall_ms", _number, "ms"),
)
_FIGURES_BY_ROLE = (
    ("cpu_seconds", "CPU time", "s"),
    ("cpu_seconds_per_million", "CPU", "s for a million messages"),
    ("peak_rss_mb", "peak memory", "MB, the most of one process"),
)
