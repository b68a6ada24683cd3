"""docs/identities.md says what is: settings and defaults, who is let in, and for how long."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.documents import Document

from quorate.protocol.identity import SourceName
from quorate.receiver import ReceiverOptions
from quorate.source import SourceOptions
from quorate.store.configuration import StoreConfiguration
from quorate.store.rules.lifetimes import (
    Lifetimes,
    Lives,
    Observed,
    Who,
)

PAGE = Document("identities")
DAY = 86_400.0


def configuration(**given: Any) -> StoreConfiguration:
    return StoreConfiguration(name="a", data_directory=Path("/nowhere"), **given)


def test_the_settings_are_those_that_there_are() -> None:
    table = PAGE.text[PAGE.text.index("| of the store, ") :].split("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table]
    fields = StoreConfiguration.model_fields
    said = {row[0].split("`")[1]: row for row in rows}
    named = [*(name for name in fields if re.search("_timeout$|_lifetime$|_grace$", name))]
    assert sorted(said) == sorted(named)
    for name, row in said.items():
        assert float(row[3].split(":")[0].replace(",", "")) == fields[name].default
        if asked := row[1].strip("`"):
            options = SourceOptions if name.startswith("source") else ReceiverOptions
            assert hasattr(options(), asked)


def test_the_examples() -> None:
    store = configuration(**tomllib.loads(PAGE.block("toml")))
    assert store.lifetimes_of("orders", receiver=True) == Lifetimes(0, 30 * DAY)
    assert store.lifetimes_of("orders", receiver=False) == Lifetimes(0, 0)
    assert store.lifetimes_of("sessions.7", receiver=False) == Lifetimes(30, DAY)
    names: dict[str, Any] = {}
    exec(PAGE.block("python"), names)
    assert names["source_options"].state_lifetime == DAY
    assert names["receiver_options"].activity_timeout == 30


def test_the_timeout_that_is_asked_for_and_the_shorter_lifetime_count() -> None:
    assert Lifetimes(10, 100).merged(Lifetimes(30, 50)) == Lifetimes(30, 50)
    assert Lifetimes(10, 100).merged(Lifetimes(5, 500)) == Lifetimes(5, 100)
    assert Lifetimes(60, 10).kept_for == 60, "nothing is deleted before the protection is over"


@pytest.mark.parametrize("timeout", [0.0, 30.0])
@pytest.mark.parametrize("willingly", [False, True])
def test_who_is_let_in(timeout: float, willingly: bool) -> None:
    observed = Observed(0.0, 0.0)
    lives = Lives(observed, lambda _: Lifetimes())
    who = Who(SourceName("orders", 1))
    lives.came(who, Lifetimes(timeout))
    lives.stays(who)
    assert lives.protected_for(who), "it streams"
    lives.left(who, willingly=willingly)
    assert (lives.protected_for(who) > 0) == (timeout > 0 and not willingly)
    observed.now += timeout
    assert not lives.protected_for(who)


def test_a_receiver_is_protected_by_its_timeout_alone() -> None:
    observed = Observed(0.0, 0.0)
    lives = Lives(observed, lambda _: Lifetimes())
    who = Who(SourceName("orders", 1), receiver=2)
    for timeout, protected in ((0.0, False), (30.0, True), (0.0, False)):
        # What the newest registration asks for counts.
        lives.came(who, Lifetimes(timeout))
        assert (lives.protected_for(who) > 0) == protected
