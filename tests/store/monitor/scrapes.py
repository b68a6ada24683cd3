"""The metrics of real stores, as Prometheus would have read them. Its own rules judge them.

A scrape stands for some minutes of the same values. So no test waits that long.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from tests.store.monitor.promtool import SCRAPE_SECONDS, firing
from tests.store.monitor.support import ask

Scrape = dict[str, float]
"""The value of each series, by its name and labels."""


class Scrapes:
    """The series that Prometheus would have read so far."""

    def __init__(
        self,
        pages: Callable[[], Mapping[str, str]],
        context: ssl.SSLContext | None = None,
        token: str = "",
    ) -> None:
        """Begin without a scrape.

        - pages: returns the addresses of the monitors of the stores that run, by name.
        - context: the monitors are asked over HTTPS.
        - token: shown to them.
        """
        self._pages = pages
        self._context = context
        self._token = token
        self._values: dict[str, list[str]] = {}
        self._count = 0

    async def until(self, reached: Callable[[Scrape], bool], of: str = "") -> None:
        """Read the metrics of these stores, or all, again and again until they are as expected."""
        while not reached(await self._now(of)):
            pass

    async def last(self, minutes: int) -> None:
        """Read the metrics once, and let these values last for so many minutes."""
        scrape, count = await self._now(), minutes * 60 // SCRAPE_SECONDS
        for series in {*scrape, *self._values}:
            values = self._values.setdefault(series, ["_"] * self._count)
            values += [str(scrape[series])] * count if series in scrape else ["stale"] * count
        self._count += count

    async def _now(self, of: str = "") -> Scrape:
        found: Scrape = {}
        for name, address in self._pages().items():
            if of and name not in of:
                continue
            text = (await ask(address, "/metrics", self._token, self._context)).body
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    labels = {"job": "g", "instance": name, **sample.labels}
                    shown = ", ".join(f'{key}="{value}"' for key, value in labels.items())
                    # The clock of the tool begins at 0.
                    is_time = sample.name.endswith("_timestamp_seconds")
                    value = sample.value - time.time() if is_time else sample.value
                    found[f"{sample.name}{{{shown}}}"] = value
        return found

    def firing(self, directory: Path) -> set[str]:
        """Return the alerts that fire now."""
        series = {name: " ".join(values) for name, values in self._values.items()}
        (alerts,) = firing(directory, series, (self._count - 1) * SCRAPE_SECONDS / 60)
        return alerts


def at(metric: str, store: str, value: float) -> Callable[[Scrape], bool]:
    """Return whether a series of this metric has this value at a store."""

    def found(scrape: Scrape) -> bool:
        begin = f'quorate_{metric}{{job="g", instance="{store}"'
        return any(key.startswith(begin) and scrape[key] == value for key in scrape)

    return found


def without(metric: str, store: str, value: float) -> Callable[[Scrape], bool]:
    """Return whether no series of this metric has this value at a store."""
    found = at(metric, store, value)
    return lambda scrape: not found(scrape)
