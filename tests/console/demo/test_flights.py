"""What the demo publishes is the same each time, whole, and in order."""

import csv
import io
import json
import zipfile
from pathlib import Path

import pytest

from quorate.console.demo.flights import check, flights, messages
from quorate.protocol.errors import InvalidArgument

NAMES = ["year", "dep_time", "carrier", "tailnum", "origin", "hour", "minute", "time_hour"]
ROWS = [
    ["2013", "NA", "UA", "NA", "EWR", "6", "30", "2013-01-01T11:00:00Z"],
    ["2013", "517", 'A"A', "N1", "JFK", "5", "15", "2013-01-01T10:00:00Z"],
    ["2013", "518", "AA", "N2", "EWR", "5", "9", "2013-01-01T10:00:00Z"],
]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    text = io.StringIO()
    csv.writer(text).writerows([NAMES, *ROWS])
    path = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("flights.csv", text.getvalue())
    return path


def test_flights_are_ordered_by_scheduled_departure(archive: Path) -> None:
    found = list(flights(archive))
    assert [topic for topic, _ in found] == ["flights.EWR", "flights.JFK", "flights.EWR"]
    assert [json.loads(payload)["minute"] for _, payload in found] == [9, 15, 30]


def test_a_flight_is_json_with_numbers_text_and_null(archive: Path) -> None:
    found = [json.loads(payload) for _, payload in flights(archive)]
    assert found[1] == {
        "year": 2013,
        "dep_time": 517,
        "carrier": 'A"A',
        "tailnum": "N1",
        "origin": "JFK",
        "hour": 5,
        "minute": 15,
        "time_hour": "2013-01-01T10:00:00Z",
    }
    assert found[2]["dep_time"] is None
    assert found[2]["tailnum"] is None


def test_a_file_of_lines_is_one_topic(tmp_path: Path) -> None:
    path = tmp_path / "my words.txt"
    path.write_bytes(b"one\n\nthree")
    assert list(messages(path)) == [
        ("my-words", b"one"),
        ("my-words", b""),
        ("my-words", b"three"),
    ]


def test_an_input_that_can_not_be_read_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot be read"):
        check(tmp_path / "nowhere")


def test_an_input_without_a_line_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(InvalidArgument, match="is empty"):
        check(tmp_path / "empty")
