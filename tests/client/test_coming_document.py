"""The page for people who know another system names what there is."""

from __future__ import annotations

import re

from tests.documents import Document

from quorate.client import AcknowledgeMode

PAGE = Document("from-kafka-nats-um")
REFERENCE = [Document(name).text for name in ("api", "operating", "queues", "state")]


def our_words() -> list[str]:
    """Return the second column of all tables, where our words are."""
    rows = re.findall(r"^\| (.*) \|$", PAGE.text, re.M)
    return [cells[1] for row in rows if len(cells := re.split(r" \| ?", row)) == 3]


def test_each_mode_of_acknowledging_is_one() -> None:
    said = {mode for cell in our_words() for mode in re.findall('acknowledge="(.*?)"', cell)}
    assert said == {mode.value for mode in AcknowledgeMode}


def test_each_name_is_in_the_reference() -> None:
    names = {
        name
        for cell in our_words()
        for code in re.findall("`(.*?)`", cell)
        for name in re.findall(r"[A-Za-z]+_[A-Za-z_]+|[A-Z][a-z]+[A-Z]\w+", code)
    }
    assert "choose_start" in names
    unknown = [name for name in names if not any(name in text for text in REFERENCE)]
    assert not unknown
