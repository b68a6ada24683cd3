from dataclasses import fields
from pathlib import Path
from typing import get_args

from quorate.source.events import Event


def test_the_documentation_names_every_event_with_its_fields() -> None:
    text = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
    section = text[text.index("## Of a source") : text.index("## Of a receiver")]
    elsewhere = {"DeliveryConfirmed"}
    for kind in get_args(Event):
        assert f"`{kind.__name__}`" in section
        if kind.__name__ not in elsewhere:
            missing = [f.name for f in fields(kind) if f"`{f.name}`" not in section]
            assert missing == [], kind
