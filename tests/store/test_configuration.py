from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quorate.protocol.errors import ConfigurationInvalid
from quorate.protocol.payloads import PayloadFormat
from quorate.store.configuration import StoreConfiguration, as_toml, load, schema
from quorate.store.rules.lifetimes import Lifetimes


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "store.toml"
    path.write_text(text)
    return path


def test_defaults() -> None:
    configuration = load(None, {"name": "s1", "data_directory": "/data"})
    assert configuration.listen == "127.0.0.1:7301"
    assert configuration.topics == (".*",)
    assert configuration.durability == "fsync"
    assert configuration.data_directory == Path("/data")


def test_a_file_and_overrides(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        name = "s1"
        data_directory = "/data"
        durability = "os"
        topics = ["orders", "quotes-.*"]
        [[topic]]
        pattern = "orders"
        durability = "fsync"
        """,
    )
    configuration = load(path, {"name": "s2", "listen": None})
    assert configuration.name == "s2"
    assert configuration.durability_of("orders") == "fsync"
    assert configuration.durability_of("orders2") == "os"


def test_a_topic_has_the_durability_of_its_store_unless_it_names_another(tmp_path: Path) -> None:
    text = """
        name = "s1"
        data_directory = "/data"
        durability = "memory"
        [[topic]]
        pattern = "orders"
        retention_messages = 10
        """
    assert load(written(tmp_path, text), {}).durability_of("orders") == "memory"


def test_a_topic_says_in_which_format_its_payloads_are(tmp_path: Path) -> None:
    text = """
        name = "s1"
        data_directory = "/data"
        [[topic]]
        pattern = "orders"
        payload = "msgpack"
        keys = "id"
        [[topic]]
        pattern = ".*-json"
        """
    configuration = load(written(tmp_path, text), {})
    keying = configuration.keying_of("orders")
    assert keying is not None
    assert keying.payload is configuration.payload_of("orders") is PayloadFormat.MSGPACK
    assert configuration.payload_of("orders-json") is PayloadFormat.JSON
    assert configuration.payload_of("others") is PayloadFormat.JSON
    shown = as_toml(configuration)
    assert 'payload = "msgpack"' in shown
    assert load(written(tmp_path, shown), {}) == configuration
    described = schema()["$defs"]["TopicConfiguration"]["properties"]["payload"]
    assert described["enum"] == ["json", "msgpack"]
    assert described["default"] == "json"
    with pytest.raises(ConfigurationInvalid, match=r"topic\.0\.payload: .*'json' or 'msgpack'"):
        load(written(tmp_path, text.replace("msgpack", "cbor")), {})


def with_queue(tmp_path: Path, lines: str, stores: str = 'stores = "a=h:1,b=h:2"') -> Path:
    text = f"""
        name = "s1"
        data_directory = "/data"
        {stores}
        [[queue]]
        name = "work"
        topics = "orders"
        {lines}
        """
    return written(tmp_path, text)


def test_a_queue_has_settings(tmp_path: Path) -> None:
    [queue] = load(with_queue(tmp_path, "tries = 3\nby_key = true"), {}).queue
    assert queue.settings.topics == ("orders",)
    assert (queue.settings.tries, queue.settings.by_key) == (3, True)
    assert queue.settings.stream.topic == "quorate.queue.work"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("tries = 0", "queue.0: tries: 0 is not at least 1"),
        ("lease_seconds = 0", "queue.0: lease_seconds: 0.0 is not above 0"),
        ('where = "price >"', "queue.0: where: "),
        ('dead_letters = "orders"', "dead letters would come back"),
        ('dead_letters = "quorate.queue.x"', "dead_letters: 'quorate.queue.x' is that of a queue"),
        ("prefetch = 5", "queue.0.prefetch: there is no such key"),
        ('[[queue]]\nname = "work"\ntopics = ["bills"]', "'work' is there twice"),
        ('[[queue]]\nname = "a b"\ntopics = ["bills"]', "'a b' is no name"),
        ('[[queue]]\nname = "x"\ntopics = []', "topics: name either topics or a topic_pattern"),
        ('topic_pattern = "orders.*"', "topics: name either topics or a topic_pattern"),
        ('[[queue]]\nname = "x"\ntopic_pattern = "(a"', "queue.1: topic pattern: "),
        (
            '[[queue]]\nname = "x"\ntopic_pattern = ".*"',
            "matches 'quorate.queue.x', the queue's own",
        ),
        (
            '[[queue]]\nname = "x"\ntopic_pattern = "quorate.queue.w.*"',
            "matches 'quorate.queue.work', the stream of the queue 'work'",
        ),
        (
            '[[queue]]\nname = "x"\ntopic_pattern = "a.*"\ndead_letters = "a.dead"',
            "dead letters would come back",
        ),
        ('[[queue]]\nname = "x"\ntopics = ["a", "a"]', "topics: names a topic twice"),
        ('[[queue]]\nname = "x"\ntopics = ["quorate.queue.y"]', "is the stream of a queue"),
    ],
)
def test_a_queue_that_makes_no_sense_is_refused(tmp_path: Path, lines: str, says: str) -> None:
    with pytest.raises(ConfigurationInvalid) as caught:
        load(with_queue(tmp_path, lines), {})
    assert says in str(caught.value)


def test_a_queue_needs_the_stores_of_the_group(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match="queue needs stores"):
        load(with_queue(tmp_path, "", stores=""), {})


def test_every_problem_is_named_at_once(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        data_directory = "/data"
        listen = "nowhere"
        durabillity = "os"
        topics = ["("]
        pending_bytes_max = 5
        [[topic]]
        pattern = "a"
        durability = "maybe"
        colour = "red"
        """,
    )
    with pytest.raises(ConfigurationInvalid) as caught:
        load(path)
    problems = caught.value.problems
    assert caught.value.path == str(path)
    for place in (
        "name: must be given",
        "listen: 'nowhere' is not of the form host:port",
        "durabillity: there is no such key",
        "topics.0: '(' is not a regular expression",
        "pending_bytes_max: ",
        "topic.0.durability: ",
        "topic.0.colour: there is no such key",
    ):
        assert place in problems
    assert len(problems.splitlines()) == 7


@pytest.mark.parametrize("text", ["name = ", "\xff"])
def test_a_file_that_is_not_toml(tmp_path: Path, text: str) -> None:
    path = tmp_path / "store.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigurationInvalid, match="cannot be read"):
        load(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match="No such file"):
        load(tmp_path / "none.toml")


def test_the_schema_names_every_key() -> None:
    described = schema()
    assert {"name", "listen", "topic", "disk_free_min_bytes"} <= set(described["properties"])
    assert described["additionalProperties"] is False
    assert "Port 0 takes a free port" in described["properties"]["listen"]["description"]


@pytest.mark.parametrize("listen", ["0.0.0.0:7301", "[::]:7301"])
def test_every_interface_needs_an_address_for_others(tmp_path: Path, listen: str) -> None:
    given = {"name": "a", "data_directory": str(tmp_path), "listen": listen}
    with pytest.raises(ConfigurationInvalid, match="advertise must be given when listen is"):
        load(None, given)
    assert load(None, {**given, "advertise": "a.example:7301"}).listen == listen


def test_lifetimes_differ_by_topic_and_role(tmp_path: Path) -> None:
    path = tmp_path / "store.toml"
    path.write_text(
        f"""
        name = "s1"
        data_directory = "{tmp_path / "data"}"
        source_activity_timeout = 5
        receiver_state_lifetime = 600
        [[topic]]
        pattern = "orders"
        source_state_lifetime = 60.5
        receiver_state_lifetime = 0
        """
    )
    found = load(path)
    assert found.lifetimes_of("trades", receiver=False) == Lifetimes(5, 0)
    assert found.lifetimes_of("trades", receiver=True) == Lifetimes(0, 600)
    assert found.lifetimes_of("orders", receiver=False) == Lifetimes(5, 60.5)
    assert found.lifetimes_of("orders", receiver=True) == Lifetimes(0, 0)


@pytest.mark.parametrize("value", ["-1", "inf", "nan"])
def test_a_lifetime_is_a_time(tmp_path: Path, value: str) -> None:
    path = tmp_path / "store.toml"
    path.write_text(
        f'name = "s1"\ndata_directory = "{tmp_path}"\nsource_state_lifetime = {value}\n'
    )
    with pytest.raises(ConfigurationInvalid, match="source_state_lifetime"):
        load(path)


def test_what_is_not_said_of_retention_is_for_sources_to_say(tmp_path: Path) -> None:
    given: dict[str, Any] = {"name": "a", "data_directory": tmp_path, "peers": ()}
    unsaid = StoreConfiguration(**given)
    assert unsaid.retention_of("orders").until is None
    topic: Any = {"pattern": "orders", "retain_until": ()}
    said = StoreConfiguration(**given, topic=(topic,))
    assert said.retention_of("orders").until == frozenset()
    assert said.retention_of("others").until is None


def test_messages_wait_for_subscribers_only_where_that_is_configured(tmp_path: Path) -> None:
    given: dict[str, Any] = {"name": "a", "data_directory": tmp_path, "peers": ()}
    assert StoreConfiguration(**given).retention_of("orders").subscriber_seconds == 0
    topic: Any = {"pattern": "orders", "retain_for_subscribers_seconds": 0}
    found = StoreConfiguration(**given, retain_for_subscribers_seconds=600, topic=(topic,))
    assert found.retention_of("orders").subscriber_seconds == 0
    assert found.retention_of("others").subscriber_seconds == 600


def test_topics_with_keys(tmp_path: Path) -> None:
    text = """
        name = "s1"
        data_directory = "/data"
        [[topic]]
        pattern = "orders"
        keys = "$key"
        expires_seconds = 3600
        [[topic]]
        pattern = "accounts-.*"
        keys = ["account.id", "$properties.region"]
        missing = "null"
        history_seconds = 600
        [[topic]]
        pattern = ".*"
        durability = "os"
        """
    found = load(written(tmp_path, text))
    orders, accounts = found.keying_of("orders"), found.keying_of("accounts-7")
    assert orders is not None
    assert accounts is not None
    assert orders.text == '["$key", "drop", 3600.0]'
    assert accounts.text == '["account.id", "$properties.region", "null"]'
    # How far back queries may ask changes no row.
    assert (orders.history_seconds, accounts.history_seconds) == (None, 600.0)
    assert found.keying_of("trades") is None


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ('keys = ""', r"topic.0.keys: '' is no field: the end was not expected here"),
        ("keys = []", "topic.0.keys: names 0 fields, not 1 to 16"),
        ('keys = ["a", "b +"]', r"topic.0.keys: 'b \+' is no field: .*after 3 characters"),
        ('keys = "a + 1"', "topic.0.keys: 'a \\+ 1' is no field: it is an expression"),
        ('keys = "/order/id"', "topic.0.keys: '/order/id' is no field"),
        ('keys = "$time"', "topic.0.keys: '\\$time' is no key; name fields of the payload"),
        ("keys = 7", "topic.0.keys: "),
        ('keys = "$key"\nmissing = "skip"', "topic.0.missing: "),
        ('missing = "drop"', "topic.0: missing needs keys"),
        ("expires_seconds = 60", "topic.0: expires_seconds needs keys"),
        ('keys = "$key"\nexpires_seconds = 0', "topic.0.expires_seconds: "),
        ("history_seconds = 60", "topic.0: history_seconds needs keys"),
        ('keys = "$key"\nhistory_seconds = 0', "topic.0.history_seconds: "),
        ('keys = "$key"\nhistory_seconds = inf', "topic.0.history_seconds: "),
    ],
)
def test_keys_that_cannot_be(tmp_path: Path, entry: str, problem: str) -> None:
    head = 'name = "s1"\ndata_directory = "/data"\n[[topic]]\npattern = "a"\n'
    with pytest.raises(ConfigurationInvalid, match=problem):
        load(written(tmp_path, head + entry))


def test_the_schema_says_what_keys_are() -> None:
    keys = schema()["$defs"]["TopicConfiguration"]["properties"]["keys"]
    assert "last stable message of each key" in " ".join(keys["description"].split())


def test_what_stores_of_a_group_should_have_in_common() -> None:
    own = {"name": "s1", "data_directory": "/data", "listen": "127.0.0.1:1", "log_level": "debug"}
    given = {"name": "s2", "data_directory": "/other", "retention_bytes": 7}
    one, other = load(None, own).shared_settings, load(None, given).shared_settings
    assert {name for name in one if one[name] != other[name]} == {"retention_bytes"}
    assert (one["retention_bytes"], other["retention_bytes"]) == ("0", "7")
    assert "name" not in one


def test_long_settings_and_rules_of_access_are_told_by_a_digest() -> None:
    files = {"certificate": "/c", "key": "/k", "ca": "/a"}
    access = [{"identities": ["ada"], "verbs": ["send"]}]
    topics = [f"topic-{number}" for number in range(100)]
    found = load(
        None,
        {"name": "s", "data_directory": "/d", "tls": files, "access": access, "topics": topics},
    ).shared_settings
    assert found["access"].startswith("digest ")
    assert "ada" not in str(found)
    assert found["topics"].startswith("digest ")
    assert len(found["topics"]) < 30
