"""docs/api.md says what the code says, and leaves out no name that applications import."""

from __future__ import annotations

import importlib
from collections import Counter
from dataclasses import dataclass

from tests import api_document


def test_the_document_is_what_the_docstrings_say() -> None:
    """After a change of a docstring, run `make docs`, or `python -m tests.api_document`."""
    assert api_document.PATH.read_text() == api_document.document()


def test_each_name_that_applications_import_is_shown_once() -> None:
    shown = Counter(
        (section.module, name)
        for section in api_document.SECTIONS
        for name in api_document.exported(section)
    )
    assert {name for name, count in shown.items() if count > 1} == set()
    for module in {section.module for section in api_document.SECTIONS}:
        names = {name for place, name in shown if place == module}
        exported = set(importlib.import_module(module).__all__)
        assert exported - names <= {"source_events", "receiver_events", "replay"}, module


@dataclass
class _Settings:
    """Settings."""

    port: int = 7_301
    """The port
    of it."""
    host: str = "here"
    _secret: str = ""

    async def ask(self, what: str, *, timeout: float | None = None) -> bytes:
        """Ask.

            await settings.ask("it")

        Raises nothing.
        """
        raise NotImplementedError

    def undocumented(self) -> None:
        raise NotImplementedError

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{self.host}:{self.port}"


def test_a_class_is_shown_with_fields_properties_and_documented_methods() -> None:
    assert (
        "\n".join(api_document.entry("Settings", _Settings))
        == """\
Settings.

* `port: int = 7_301`: The port of it.
* `host: str = "here"`
* `address: str`: Host and port.

#### Settings.ask

```python
async def ask(what: str, *, timeout: float | None = None) -> bytes
```

Ask.

```python
await settings.ask("it")
```

Raises nothing.
"""
    )
