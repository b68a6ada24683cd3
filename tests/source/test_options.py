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


def test_all_interfaces_may_be_listened_on_if_an_address_is_told() -> None:
    assert SourceOptions(listen="0.0.0.0:0", advertise="me.example").advertise == "me.example"
