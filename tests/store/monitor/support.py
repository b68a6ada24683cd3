"""Questions to a store's monitor."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPResponse
from typing import Any, NamedTuple

from prometheus_client.parser import text_string_to_metric_families


class Answer(NamedTuple):
    status: int
    body: str

    def json(self) -> Any:
        return json.loads(self.body)


async def ask(
    address: str,
    page: str,
    token: str = "",
    context: ssl.SSLContext | None = None,
    read: Callable[[HTTPResponse], bytes] = HTTPResponse.read,
) -> Answer:
    """Return the answer of a page.

    - context: the page is asked for over HTTPS.
    - read: reads the body, as a whole or in part.
    """
    scheme = "http" if context is None else "https"
    request = urllib.request.Request(f"{scheme}://{address}{page}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")

    def answered() -> Answer:
        try:
            with urllib.request.urlopen(request, timeout=20, context=context) as response:
                return Answer(response.status, read(response).decode())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read().decode())

    return await asyncio.to_thread(answered)


def samples(text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return the value of each sample, by its name and the values of its labels."""
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
