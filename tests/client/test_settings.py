"""The ways to say which stores there are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.receiver.real_peers import Stores

from quorate.client import (
    Delays,
    Layout,
    ReceiverOptions,
    SourceOptions,
    StoreAddress,
    StoreGroup,
    connect,
    connect_blocking,
)
from quorate.client.settings import Settings, read_layout
from quorate.errors import ConfigurationInvalid, InvalidArgument, MessageTooLarge, UnknownTopic

THREE = "a=h1:7301,b=h2:7301,c=h3:7301"
TOML = """
intergroup = "majority"

[[groups]]
name = "london"
stores = ["a=h1:7301", "b=h2:7301", "c=h3:7301"]
"""


@pytest.mark.parametrize(
    "given",
    [
        THREE,
        THREE.split(","),
        [StoreAddress.parse(store) for store in THREE.split(",")],
        Layout.plain(THREE),
    ],
    ids=["text", "texts", "addresses", "layout"],
)
def test_a_majority_of_stores(given: object) -> None:
    assert read_layout(given) == Layout.plain(THREE)  # type: ignore[arg-type]


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "stores.toml"
    file.write_text(TOML)
    layout = Layout.of(StoreGroup("london", THREE), rule="majority")
    assert read_layout(file) == read_layout(str(file)) == layout


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match=r"none\.toml is not valid:\n  No such file"):
        connect(tmp_path / "none.toml")


@pytest.mark.parametrize("wrong", ["", "h1", [], ["a=h1:1", "a=h2:1"], "a=h1:1,b=h1:1"])
def test_what_is_no_list_of_stores(wrong: str) -> None:
    with pytest.raises(InvalidArgument, match="store"):
        connect(wrong)
    with pytest.raises(InvalidArgument, match="store"):
        connect_blocking(wrong)
    with pytest.raises(InvalidArgument, match="store"):
        connect(THREE, previous_policies=[wrong])


@pytest.mark.parametrize("seconds", [-1, float("nan"), "1"])
def test_what_is_no_timeout(seconds: Any) -> None:
    with pytest.raises(InvalidArgument, match="timeout"):
        connect(THREE, timeout=seconds)


WHOLE = """
stores = ["a=h1:7301", "b=h2:7301", "c=h3:7301"]
output = "json"
timeout = 5

[[previous]]
stores = ["a=h1:7301"]

[source]
flight_messages = 10
flight_behaviour = "notify"
registration_interval = 1

[source.delays]
first = 0.1

[[source.topic]]
pattern = "orders.*"
flight_messages = 20

[[source.topic]]
pattern = "orders-late"
flight_messages = 30

[receiver]
confirm_delivery = "always"

[[receiver.topic]]
pattern = "orders"
request_maximum = 7
"""


def settings_of(tmp_path: Path, text: str, **given: Any) -> Settings:
    file = tmp_path / "config.toml"
    file.write_text(text)
    return connect(file, **given)._settings


def test_the_file_of_the_command(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, WHOLE)
    assert settings.layout == Layout.plain(THREE)
    assert settings.previous == (Layout.plain("a=h1:7301"),)
    assert settings.timeout == 30.0, "the file's timeout is the command's"
    both = connect(tmp_path / "config.toml", previous_policies=["b=h2:7301"])._settings
    assert both.previous == (Layout.plain("a=h1:7301"), Layout.plain("b=h2:7301"))


def test_options_of_code_win_over_those_of_the_topic_and_these_over_the_others(
    tmp_path: Path,
) -> None:
    settings = settings_of(tmp_path, WHOLE)
    other = settings.source_options("trades", None)
    assert other == SourceOptions(
        flight_messages=10,
        flight_behaviour="notify",
        registration_interval=1.0,
        delays=Delays(first=0.1),
    )
    assert settings.source_options("orders-late", None) == replace(other, flight_messages=20)
    code = SourceOptions(flight_messages=65_536, listen="127.0.0.1:1")
    assert settings.source_options("orders", code) == replace(
        other, flight_messages=65_536, listen="127.0.0.1:1"
    )


def test_a_receiver_of_a_pattern_has_the_options_of_no_topic(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, WHOLE)
    assert settings.receiver_options("orders", None).request_maximum == 7
    assert settings.receiver_options(None, None).request_maximum is None
    in_order = ReceiverOptions("highest")
    assert settings.receiver_options("orders", in_order) == ReceiverOptions(
        "highest", request_maximum=7, confirm_delivery="always"
    )


def test_shared_delays_win_over_the_file_and_give_way_to_code(tmp_path: Path) -> None:
    shared = Delays(first=0.2)
    settings = settings_of(tmp_path, WHOLE, delays=shared)
    assert settings.source_options("orders", None).delays == shared
    assert settings.receiver_options("orders", None).delays == shared
    own = SourceOptions(delays=Delays())
    assert settings.source_options("orders", own).delays == Delays()
    assert connect(THREE, delays=shared)._settings.receiver_options("t", None).delays == shared
    with pytest.raises(InvalidArgument, match=r"delays: 0\.2 is not made by Delays"):
        connect(THREE, delays=0.2)  # type: ignore[arg-type]


def test_every_problem_of_a_file_is_told_at_once(tmp_path: Path) -> None:
    text = """
    store = ["a=h1:7301"]

    [[previous]]

    [source]
    flight_mesages = 10
    flight_messages = 0
    flight_bytes = true
    flight_behaviour = "wait"
    receiver_pacing = { messages = 0, bytes = 1.5, both = 1 }

    [[source.topic]]
    pattern = "("
    delays = 1
    listen = "nowhere"

    [receiver]
    choose_start = "latest"
    topic = { request_maximum = 1 }
    """
    with pytest.raises(ConfigurationInvalid) as raised:
        settings_of(tmp_path, text)
    told = [line.strip().partition(": ")[::2] for line in raised.value.problems.splitlines()]
    assert [path for path, _ in told] == [
        "store",
        "stores",
        "previous.0.stores",
        "source.flight_mesages",
        "source.flight_bytes",
        "source.receiver_pacing.bytes",
        "source.receiver_pacing.both",
        "source.receiver_pacing.messages",
        "source.flight_behaviour",
        "source.flight_messages",
        "source.topic.0.delays",
        "source.topic.0.listen",
        "source.topic.0.pattern",
        "receiver.choose_start",
        "receiver.topic",
    ]
    why = dict(told)
    assert why["store"] == "unknown; did you mean stores?"
    assert why["source.flight_bytes"] == "True is not a whole number"
    assert why["source.flight_behaviour"] == "'wait' is none of block, notify"
    assert why["source.topic.0.delays"] == "1 is not a table"
    assert why["receiver.choose_start"] == "is a function; give it in code"
    assert str(tmp_path / "config.toml") in str(raised.value)


def test_what_a_topic_lacks_together_with_the_defaults(tmp_path: Path) -> None:
    text = f"{WHOLE.partition('[receiver]')[0]}listen = '0.0.0.0:7400'\n"
    with pytest.raises(ConfigurationInvalid, match=r"source\.topic\.1\.advertise: is needed"):
        settings_of(tmp_path, text)
    advertised = text.replace("flight_messages = 10", "advertise = 'h1'")
    assert settings_of(tmp_path, advertised).source_options("a", None).advertise == "h1"


@pytest.mark.expects_log("no store has a source")
async def test_sources_and_receivers_of_a_client_have_the_options_of_its_file(
    stores: Stores, tmp_path: Path
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        f'stores = "{stores.addresses}"\n[source]\nmessage_bytes_max = 3\n'
        '[[receiver.topic]]\npattern = "nobody.*"\nwait_for_source = 0\n'
    )
    async with connect(file) as quorate:
        orders = await quorate.source("orders", session_id=1)
        with pytest.raises(MessageTooLarge):
            await orders.send(b"four")
        with pytest.raises(UnknownTopic):
            await quorate.receiver("nobody sends this")
        await quorate.receiver("orders")
