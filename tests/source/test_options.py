from fractions import Fraction
from math import inf, nan
from typing import Any

import pytest

from quorate.protocol.errors import InvalidArgument
from quorate.source import SourceOptions


@pytest.mark.parametrize(
    "setting",
    [
        {"flight_messages": 0},
        {"flight_bytes": 0},
        {"message_bytes_max": 0},
        {"message_bytes_max": 2**30},
        {"receiver_queue_bytes": 0},
        {"retention_bytes_max": -1},
        {"registration_interval": -1},
        {"stability_lifetime": -1},
        {"registration_interval": nan},
        {"backup_after": nan},
        {"unanswered_after": 0},
        {"unanswered_after": inf},
        {"unanswered_after": nan},
        {"activity_timeout": 0},
        {"activity_timeout": inf},
        {"activity_timeout": nan},
        {"state_lifetime": -1},
        {"state_lifetime": inf},
        {"state_lifetime": nan},
        {"listen": "nowhere"},
        {"listen": "host:port"},
        {"listen": "host:70000"},
        {"listen": "0.0.0.0:0"},
    ],
)
def test_what_makes_no_sense_is_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        SourceOptions(**setting)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"flight_messages": "10"}, "flight_messages: '10' is not a whole number"),
        ({"flight_messages": 1.5}, "flight_messages: 1.5 is not a whole number"),
        ({"flight_messages": True}, "flight_messages: True is not a whole number"),
        ({"stability_lifetime": "60"}, "stability_lifetime: '60' is not a number"),
        ({"activity_timeout": "60"}, "activity_timeout: '60' is not a number"),
        ({"confirm_delivery": "always"}, "confirm_delivery: 'always' is not true or false"),
        ({"receiver_pacing": 1000}, "receiver_pacing: 1000 is not made by ReceiverPacing"),
        ({"delays": 0.5}, "delays: 0.5 is not made by Delays"),
        ({"listen": 7301}, "listen: 7301 is not text"),
    ],
)
def test_a_value_of_another_kind_is_named(setting: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        SourceOptions(**setting)


@pytest.mark.parametrize("seconds", [60, 60.0, Fraction(60)])
def test_each_kind_of_number_is_one(seconds: Any) -> None:
    assert SourceOptions(stability_lifetime=seconds).stability_lifetime == 60


def test_all_interfaces_may_be_listened_on_if_an_address_is_told() -> None:
    assert SourceOptions(listen="0.0.0.0:0", advertise="me.example").advertise == "me.example"
