"""`quorate send` and `quorate receive` as a user has them: pipes, files, sessions, Ctrl-C."""

import json
import os
import signal
import struct
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.console.command import QUORATE

from quorate.console.commands.send import publish_store_of

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """With a group of three stores in it."""
    directory = tmp_path_factory.mktemp("group")
    with subprocess.Popen(
        [*QUORATE, "dev", "--base-port", "0", "--data-directory", str(directory)],
        stdout=subprocess.PIPE,
        text=True,
    ) as dev:
        assert dev.stdout is not None
        stores = dev.stdout.readline().strip().partition("=")[2]
        yield {**os.environ, "QUORATE_STORES": stores}
        dev.send_signal(signal.SIGTERM)
        assert dev.wait(30) == 0


def quorate(
    environment: dict[str, str], *arguments: str, given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*QUORATE, *arguments],
        env=environment,
        input=given,
        capture_output=True,
        check=False,
        timeout=60,
    )


def test_what_is_sent_is_received(environment: dict[str, str]) -> None:
    sent = quorate(environment, "send", "lines", given=b"one\n\nthree")
    assert sent.returncode == 0, sent.stderr
    assert b"3 messages to lines/" in sent.stderr
    assert b"all stable" in sent.stderr
    assert sent.stdout == b""
    received = quorate(environment, "receive", "lines", "--count", "3")
    assert received.returncode == 0, received.stderr
    assert received.stdout == b"one\n\nthree\n"


def test_only_what_passes_a_filter_is_printed(environment: dict[str, str]) -> None:
    quorate(environment, "send", "dear", given=b'{"price": 1}\n{"price": 200}\nno JSON\n')
    received = quorate(
        environment, "receive", "dear", "--where", "price > 100", "--until-idle", "1"
    )
    assert received.stdout == b'{"price": 200}\n'
    wrong = quorate(environment, "receive", "dear", "--where", "price >")
    assert wrong.returncode != 0
    assert b"The filter is not valid after 7 characters" in wrong.stderr


def test_what_is_sent_compressed_is_received(environment: dict[str, str]) -> None:
    lines = b"one and the same line\n" * 100
    sent = quorate(environment, "send", "compressed", "--compression", "zstd", given=lines)
    assert sent.returncode == 0, sent.stderr
    received = quorate(environment, "receive", "compressed", "--count", "100")
    assert received.stdout == lines


def test_a_session_goes_on_where_it_was(environment: dict[str, str]) -> None:
    for words in (b"a\nb\nc\n", b"d\ne\n"):
        result = quorate(environment, "send", "session", "--session-id", "0x10", given=words)
        assert result.returncode == 0, result.stderr
    seen = [
        quorate(environment, "receive", "session", "--session-id", "0x20", "--count", "2").stdout
        for _ in range(2)
    ]
    assert seen == [b"a\nb\n", b"c\nd\n"]


def test_the_last_messages_and_what_happens(environment: dict[str, str]) -> None:
    sent = quorate(environment, "send", "last", "--session-id", "0x10", given=b"a\nb\nc\nd\n")
    assert sent.returncode == 0, sent.stderr
    watch = ("receive", "last", "--last", "2", "--count", "2", "--events")
    shown = quorate(environment, *watch)
    assert shown.stdout == b"c\nd\n"
    assert b"RegistrationComplete" in shown.stderr
    machines = quorate(environment, *watch, "-o", "jsonl")
    told = [json.loads(line) for line in machines.stderr.splitlines()]
    complete = next(event for event in told if event["event"] == "RegistrationComplete")
    assert complete["source"] == "last/0x10"
    assert (complete["first_sequence"], complete["low"], complete["high"]) == (2, 2, 3)
    assert len(complete["stores"]) == 3
    none = quorate(environment, "receive", "last", "--last", "0", "--until-idle", "0.5")
    assert (none.returncode, none.stdout) == (0, b"")


def test_where_a_receiver_starts(environment: dict[str, str]) -> None:
    quorate(environment, "send", "start", "--session-id", "0x10", given=b"a\nb\n")
    between = datetime.now(UTC).isoformat()
    quorate(environment, "send", "start", "--session-id", "0x10", given=b"c\nd\n")

    def shown(*options: str) -> bytes:
        return quorate(environment, "receive", "start", "--until-idle", "1", *options).stdout

    assert shown("--from", "earliest") == b"a\nb\nc\nd\n"
    assert shown("--from", "latest") == b""
    assert shown("--from", "3") == b"d\n"
    assert shown("--from", between) == b"c\nd\n"
    known = ("--session-id", "0x20", "--count", "1")
    assert shown(*known, "--last", "2") == b"c\n"
    assert shown(*known, "--last", "4") == b"d\n", "it goes on where it stopped"
    both = quorate(environment, "receive", "start", "--from", "3", "--last", "2")
    assert both.returncode == 2
    assert b"--last" in both.stderr
    wrong = quorate(environment, "receive", "start", "--from", "yesterday")
    assert wrong.returncode == 2
    assert b"'yesterday' is none; give \"earliest\"" in wrong.stderr


def test_a_source_that_begins_later_is_new_as_a_whole(environment: dict[str, str]) -> None:
    quorate(environment, "send", "later.one", given=b"old\n")
    waiting = [*QUORATE, "receive", "later.*", "--pattern", "--last", "0", "-n", "3", "--events"]
    with subprocess.Popen(
        waiting, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as receiving:
        assert receiving.stderr is not None
        while b"RegistrationComplete" not in receiving.stderr.readline():
            pass
        # The receiver may hear of the source only when all three are stored.
        quorate(environment, "send", "later.two", given=b"a\nb\nc\n")
        shown, _ = receiving.communicate(timeout=60)
    assert shown == b"a\nb\nc\n"


def test_what_happens_to_a_source(environment: dict[str, str]) -> None:
    """Also why it waits: for a store that is not there, once, and as long as it was told to."""
    stores = f"{environment['QUORATE_STORES']},127.0.0.1:1"
    sent = quorate(
        environment, "send", "told", "--stores", stores, "--registration-interval", "0.3",
        "--events", "-o", "jsonl", given=b"a\n",
    )  # fmt: skip
    assert sent.returncode == 0, sent.stderr
    lines = [json.loads(line) for line in sent.stderr.splitlines()]
    told = [line for line in lines if "event" in line]
    # On a busy machine others are missing, too.
    waiting = [each for each in told if each["event"] == "WaitingForStores" and each["seconds"]]
    assert waiting
    assert all("127.0.0.1:1" in each["missing"] and each["seconds"] <= 0.3 for each in waiting)
    missing = [tuple(each["missing"]) for each in waiting]
    assert len(set(missing)) == len(missing)
    (complete,) = [each for each in told if each["event"] == "RegistrationComplete"]
    assert "127.0.0.1:1" in complete["missing"]
    assert complete["first_sequence"] == 0


def test_json_has_all_fields_and_is_one_valid_whole(environment: dict[str, str]) -> None:
    payloads = [b"text", b"\xff\x00"]
    framed = b"".join(struct.pack(">I", len(each)) + each for each in payloads)
    sent = quorate(
        environment,
        *("send", "json", "--format", "length-prefixed", "--session-id", "5", "-o", "json"),
        given=framed,
    )
    assert sent.returncode == 0, sent.stderr
    summary = json.loads(sent.stdout)
    assert (summary["sent"], summary["stable"], summary["first"]) == (2, 2, 0)
    received = quorate(environment, "receive", "js.n", "--pattern", "-n", "2", "-o", "json")
    first, second = json.loads(received.stdout)
    assert first["payload"] == "text"
    assert second["payload_base64"] == "/wA="
    assert (first["topic"], first["session_id"], first["sequence"]) == ("json", "0x5", 0)
    assert second["sequence"] == 1
    lines = quorate(environment, "receive", "json", "--until-idle", "1", "-o", "jsonl").stdout
    assert [json.loads(line)["sequence"] for line in lines.splitlines()] == [0, 1]


def test_keys_and_properties(environment: dict[str, str]) -> None:
    given = ("--property", "colour=red=ish", "--property", "raw=\udcff")
    for words, options in (
        (b"a\nb\n", ("--key", "one", *given)),
        (b"c\n", ("--key", "\udcfe")),
        (b"d\n", ()),
    ):
        sent = quorate(environment, "send", "keyed", "--session-id", "7", *options, given=words)
        assert sent.returncode == 0, sent.stderr
    lines = quorate(environment, "receive", "keyed", "-n", "4", "-o", "jsonl").stdout
    a, b, c, d = map(json.loads, lines.splitlines())
    for message, payload in ((a, "a"), (b, "b")):
        assert (message["payload"], message["key"]) == (payload, "one")
        assert message["properties"] == {"colour": "red=ish"}
        assert message["properties_base64"] == {"raw": "/w=="}
    assert c["key_base64"] == "/g=="
    assert not {"key", "properties", "properties_base64"} & c.keys()
    assert d["payload"] == "d"
    assert not {"key", "key_base64", "properties", "properties_base64"} & d.keys()
    assert quorate(environment, "receive", "keyed", "-n", "4").stdout == b"a\nb\nc\nd\n"


def test_an_expiry_is_shown(environment: dict[str, str]) -> None:
    for options in (["2026-01-31T12:00Z"], ["1h", "--key", "k"]):
        words = ["send", "expiring", "--session-id", "7", "--expires", *options]
        sent = quorate(environment, *words, given=b"x\n")
        assert sent.returncode == 0, sent.stderr
    lines = quorate(environment, "receive", "expiring", "-n", "2", "-o", "jsonl").stdout
    first, second = map(json.loads, lines.splitlines())
    assert first["expires"] == "2026-01-31T12:00:00+00:00"
    at, expires = (datetime.fromisoformat(second[name]) for name in ("time", "expires"))
    assert timedelta(minutes=59) < expires - at < timedelta(minutes=61)
    assert "deleted" not in first
    sent = quorate(environment, "send", "expiring", "--expires", "soon")
    assert sent.returncode == 2
    assert b"--expires: 'soon' is none; give an age such as 15m" in sent.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["nothing"], b"--property: 'nothing' is not NAME=VALUE"),
        (["a=1", "a=2"], b"--property: a is given twice"),
        (["=1"], b"properties: '' is not a name"),
    ],
)
def test_what_is_no_property_is_a_usage_error(
    environment: dict[str, str], given: list[str], said: bytes
) -> None:
    options = [option for each in given for option in ("--property", each)]
    sent = quorate(environment, "send", "refused", *options, given=b"x\n")
    assert sent.returncode == 2
    assert said in sent.stderr


def test_nothing_received_is_an_empty_array(environment: dict[str, str]) -> None:
    received = quorate(environment, "receive", "nobody", "--until-idle", "0.2", "-o", "json")
    assert received.returncode == 0
    assert json.loads(received.stdout) == []


def test_a_topic_that_nobody_sends_is_an_error_after_the_wait(
    environment: dict[str, str],
) -> None:
    received = quorate(environment, "receive", "nobody", "--wait", "0.2", "-o", "json")
    assert received.returncode == 1
    assert json.loads(received.stderr)["error"] == "UnknownTopic"


def test_who_waits_for_a_topic_is_told_so(environment: dict[str, str]) -> None:
    quorate(environment, "send", "somebody", given=b"a\n")
    waiting = [*QUORATE, "receive", "sombody"]
    with subprocess.Popen(waiting, env=environment, stderr=subprocess.PIPE, text=True) as receiver:
        assert receiver.stderr is not None
        said = receiver.stderr.readline()
        receiver.send_signal(signal.SIGINT)
        assert receiver.wait(10) == 0
    assert "no store has a source of sombody yet" in said
    assert "somebody" in said


def test_a_file_that_is_not_there_is_a_usage_error(environment: dict[str, str]) -> None:
    sent = quorate(environment, "send", "file", "--file", "nowhere")
    assert sent.returncode == 2
    assert sent.stderr.startswith(b"error: --file: nowhere cannot be read")


def test_a_closed_stdin_is_a_usage_error(environment: dict[str, str]) -> None:
    # A shell starts it: subprocess can not close descriptor 0.
    closed = " ".join([*QUORATE, "send", "closed", "<&-"])
    sent = subprocess.run(closed, shell=True, env=environment, capture_output=True, check=False)
    assert sent.returncode == 2
    assert sent.stderr.startswith(b"error: --file: stdin is closed")


def test_a_full_disk_is_an_error_in_words(environment: dict[str, str]) -> None:
    quorate(environment, "send", "full", given=b"one\n")
    with Path("/dev/full").open("wb") as full:
        received = subprocess.run(
            [*QUORATE, "receive", "full", "--count", "1"],
            env=environment,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert received.returncode == 1
    assert received.stderr == b"error: [Errno 28] No space left on device.\n"


def test_what_goes_wrong_on_the_way_is_a_warning(environment: dict[str, str]) -> None:
    stores = environment["QUORATE_STORES"].split(",")[:2]
    lacking = {**environment, "QUORATE_STORES": ",".join([*stores, "127.0.0.1:1"])}
    quorate(environment, "send", "lacking", given=b"one\n")
    for form, begin in (("table", b"warning: "), ("json", b'{"warning": ')):
        received = quorate(lacking, "receive", "lacking", "--count", "1", "-o", form)
        assert received.returncode == 0
        lines = received.stderr.splitlines()
        assert any(b"127.0.0.1:1 cannot be reached" in line for line in lines)
        assert all(line.startswith(begin) for line in lines)


def test_an_unknown_variable_is_a_configuration_error(environment: dict[str, str]) -> None:
    sent = quorate({**environment, "QUORATE_TIMEOUTS": "3"}, "send", "x")
    assert sent.returncode == 78
    assert b"did you mean QUORATE_TIMEOUT?" in sent.stderr


def test_a_publish_store_remembers_its_session(environment: dict[str, str], tmp_path: Path) -> None:
    arguments = ("send", "kept", "--publish-store", str(tmp_path / "publish"), "-o", "json")
    first, second = (
        json.loads(quorate(environment, *arguments, given=b"x\ny\n").stdout) for _ in range(2)
    )
    assert first["session_id"] == second["session_id"]
    assert (first["first"], second["first"]) == (0, 2)


def test_a_publish_store_is_synced_if_it_is_asked_for(tmp_path: Path) -> None:
    kept, synced = (publish_store_of(tmp_path / "publish", sync) for sync in (False, True))
    assert kept is not None
    assert synced is not None
    assert (kept.slow, synced.slow) == (False, True)
    assert publish_store_of(None, synced=False) is None


def test_there_is_nothing_to_sync_without_a_publish_store(environment: dict[str, str]) -> None:
    sent = quorate(environment, "send", "x", "--synced")
    assert sent.returncode == 2
    assert b"--synced: it needs --publish-store" in sent.stderr


def test_ctrl_c_ends_a_receiver_well_and_keeps_its_place(environment: dict[str, str]) -> None:
    quorate(environment, "send", "interrupted", "--session-id", "9", given=b"a\nb\n")
    arguments = ["receive", "interrupted", "--session-id", "0x30", "-o", "json"]
    with subprocess.Popen([*QUORATE, *arguments], env=environment, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        shown = first.stdout.readline() + first.stdout.readline()
        first.send_signal(signal.SIGINT)
        shown += first.stdout.read()
        assert first.wait(20) == 0
    assert [each["payload"] for each in json.loads(shown)] == ["a", "b"]
    quorate(environment, "send", "interrupted", "--session-id", "9", given=b"c\n")
    assert json.loads(quorate(environment, *arguments, "-n", "1").stdout)[0]["payload"] == "c"


def test_ctrl_c_stops_a_sender_and_says_what_is_stable(environment: dict[str, str]) -> None:
    with subprocess.Popen(
        [*QUORATE, "send", "typed", "--session-id", "0x77"],
        env=environment,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as sender:
        assert sender.stdin is not None
        sender.stdin.write(b"first\nsecond\n")
        sender.stdin.flush()
        # What a person types goes out at once, not when the stream ends.
        received = quorate(environment, "receive", "typed", "--count", "2")
        assert received.stdout == b"first\nsecond\n"
        sender.send_signal(signal.SIGINT)
        _, said = sender.communicate(timeout=30)
    assert sender.returncode == 130
    assert b"2 messages to typed/0x77 from 0, all stable" in said


def test_a_second_sender_of_one_session_is_refused(environment: dict[str, str]) -> None:
    with subprocess.Popen(
        [*QUORATE, "send", "one", "--session-id", "0x88"],
        env=environment,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as sender:
        assert sender.stdin is not None
        sender.stdin.write(b"first\n")
        sender.stdin.flush()
        assert quorate(environment, "receive", "one", "--count", "1").stdout == b"first\n"
        second = quorate(environment, "send", "one", "--session-id", "0x88", given=b"second\n")
        assert second.returncode == 1
        assert b"has a living source one/0x88" in second.stderr
        fencing = ("send", "one", "--session-id", "0x88", "--take-over", "-o", "json")
        third = quorate(environment, *fencing, given=b"second\n")
        assert third.returncode == 0
        assert json.loads(third.stdout)["first"] == 1
        sender.stdin.write(b"from the zombie\n")
        sender.stdin.flush()
        sender.stdin.close()
        assert sender.wait(30) == 75
    received = quorate(environment, "receive", "one", "--until-idle", "1")
    assert received.stdout == b"first\nsecond\n"


def test_a_paced_source_waits_for_whom_it_is_to_wait_for(environment: dict[str, str]) -> None:
    started = quorate(environment, "send", "paced", "--session-id", "0x10", given=b"a\n")
    assert started.returncode == 0, started.stderr
    for session_id, more in (("0x20", ()), ("0x21", ("--not-waited-for",))):
        known = ("receive", "paced", "--session-id", session_id, "--count", "1", *more)
        assert quorate(environment, *known).stdout == b"a\n"
    with subprocess.Popen(
        [*QUORATE, "send", "paced", "--session-id", "0x10", "--receiver-paced", "5"],
        env=environment,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as sending:
        assert sending.stdin is not None
        assert sending.stderr is not None
        sending.stdin.write(b"b\n" * 20)
        sending.stdin.close()
        assert b"held up by receivers that lag: 0x20;" in sending.stderr.readline()
        shown = json.loads(quorate(environment, "status", "-o", "json").stdout)
        (row,) = (row for row in shown["paced"] if row["topic"] == "paced")
        assert (row["slowest_receiver"], row["acknowledged_upto"]) == ("0x20", 0)
        assert (row["messages_max"], row["state"]) == (5, "held up")
        rest = ("receive", "paced", "--session-id", "0x20", "--count", "20")
        assert quorate(environment, *rest).stdout == b"b\n" * 20
        assert sending.wait(60) == 0


def test_options_of_the_file(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[source]\nmessage_bytes_max = 3\n[receiver]\nwait_for_source = 0\n")
    with_file = environment | {"QUORATE_CONFIG": str(file)}
    sent = quorate(with_file, "send", "limited", given=b"four\n")
    assert b"4 bytes" in sent.stderr
    assert sent.returncode != 0
    assert b"nobody" in quorate(with_file, "receive", "nobody").stderr
    file.write_text("[receiver]\nwait_for_sorce = 0\n")
    refused = quorate(with_file, "receive", "limited")
    assert refused.returncode == 78
    assert b"receiver.wait_for_sorce: unknown; did you mean wait_for_source?" in refused.stderr
