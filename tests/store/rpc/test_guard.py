"""The guard of a store: each call of each service has its verbs, and real stores obey the rules."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import grpc.aio
import pytest
from google.protobuf.message_factory import GetMessageClass
from tests import seams
from tests.certificates import LOCAL, files
from tests.source.real_stores import RealStores

from quorate.client import Client, Receiver, Tls, connect
from quorate.console.group import journal, status
from quorate.console.group.authority import Authority
from quorate.errors import AccessDenied, ConfigurationInvalid, LimitReached, QuorateError
from quorate.protocol.access import Access, Verb
from quorate.protocol.tls import environment_of
from quorate.store.configuration import load
from quorate.store.rpc import guard
from quorate.transport.bundle import Bundle
from quorate.transport.channels import open_channel
from quorate.transport.failures import errors_of, failure_from_wire
from quorate.transport.identities import hash_of, new_token
from quorate.transport.status import read_status, status_request
from quorate.v1 import peer_pb2, queue_pb2, source_pb2, store_pb2
from quorate.v1.messages_pb2 import Frame
from quorate.v1.store_pb2_grpc import StoreServicer, StoreStub

OPEN = {"Beat"}
"""The calls that everybody may make who can connect: a heartbeat tells nothing of any topic."""


def methods(module: Any) -> set[str]:
    services = module.DESCRIPTOR.services_by_name.values()
    return {method.name for service in services for method in service.methods}


def test_every_call_of_a_store_has_verbs_and_subjects() -> None:
    assert {*guard.CALLS, guard.BUNDLE} == methods(store_pb2) | methods(queue_pb2)


def test_every_call_of_every_service_is_guarded_or_open_on_purpose() -> None:
    everything = set[str]().union(*map(methods, (store_pb2, source_pb2, peer_pb2, queue_pb2)))
    assert everything - set(guard.CALLS) - {"Attach", "Confirm", guard.BUNDLE} == OPEN


def test_a_call_that_has_no_verb_cannot_be_served(monkeypatch: pytest.MonkeyPatch) -> None:
    others = {name: call for name, call in guard.CALLS.items() if name != "Fetch"}
    seams.GUARD_CALLS.replace(monkeypatch, others)
    admission = guard.Admission(lambda: Access(()), None)
    service: Any = StoreServicer()
    service.refuse = AsyncMock()
    with pytest.raises(KeyError, match="Fetch"):
        guard.guarded(service, admission, guard.SERVICE)


RULES = [
    {"identities": ["sender"], "verbs": ["send"], "topics": ["orders.*"]},
    {"identities": ["reader"], "verbs": ["receive", "subscribe"], "topics": ["orders.*"]},
    {"identities": ["viewer"], "verbs": ["query"]},
    {"identities": ["operator"], "verbs": ["operate", "delete"]},
]


class Guarded:
    """A store with rules, and clients of it by identity."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rules: list[dict[str, Any]] = RULES
        self.authority = Authority.new()
        self.stores = RealStores(path)
        self.tokens = path / "tokens"
        self.tokens.write_text("")
        tls = files(path / "tls", self.authority, "store-a")
        self.tls = {"ca": tls.ca, "certificate": tls.certificate, "key": tls.key}

    async def start(self, **tls: Any) -> None:
        self.stores.settings["a"] = {"tls": {**self.tls, **tls}, "access": self.rules}
        await self.stores.start("a")

    def files(self, identity: str, hosts: Sequence[str] = ()) -> Tls:
        return files(self.path / identity, self.authority, identity, hosts=hosts)

    def client(self, identity: str) -> Client:
        # The host of a sender is a name, too, because its receivers connect to it.
        hosts = LOCAL if identity == "sender" else ()
        return connect(self.stores.named("a"), tls=self.files(identity, hosts), timeout=5)


@pytest.fixture
async def guarded(tmp_path: Path) -> AsyncIterator[Guarded]:
    guarded = Guarded(tmp_path)
    yield guarded
    await guarded.stores.stop_all()


async def denied(client: Client, role: str, topic: str) -> AccessDenied:
    async with client:
        with pytest.raises(AccessDenied) as caught:
            await getattr(client, role)(topic)
    return caught.value


@pytest.mark.expects_log("may not")
async def test_who_may_send_and_who_may_read(guarded: Guarded) -> None:
    await guarded.start()
    async with guarded.client("sender") as sending, guarded.client("reader") as reading:
        orders = await sending.source("orders.eu", session_id=1)
        await orders.publish(b"one")
        receiver = await reading.receiver("orders.eu", session_id=2)
        assert (await anext(aiter(receiver))).payload == b"one"
        async with reading.subscriber("orders.eu", begin="epoch"):
            pass
        async with reading.subscriber(topic_pattern="orders.*", begin="epoch"):
            pass
        for pattern in (".*", "orders.eu|trades"):
            with pytest.raises(AccessDenied, match="reader may not subscribe"):
                await reading.subscriber(topic_pattern=pattern, begin="epoch")
    error = await denied(guarded.client("reader"), "source", "orders.eu")
    assert (error.identity, error.verb, error.topic) == ("reader", "send", "orders.eu")
    assert error.exit_code == 77
    assert not error.retryable
    assert (await denied(guarded.client("sender"), "source", "trades")).topic == "trades"
    assert (await denied(guarded.client("sender"), "subscriber", "orders.eu")).verb == "subscribe"
    assert (await denied(guarded.client("sender"), "receiver", "orders.eu")).verb == "receive"
    assert (await denied(guarded.client("stranger"), "source", "orders.eu")).identity == "stranger"


@pytest.mark.expects_log("may not")
async def test_a_store_tells_operators_of_denied_calls_and_of_its_certificate(
    guarded: Guarded,
) -> None:
    await guarded.start()

    async def told() -> store_pb2.StatusResponse:
        async with open_channel(guarded.stores.address("a"), guarded.files("operator")) as channel:
            return await read_status(StoreStub(channel).Status(status_request()))

    before = await told()
    assert (before.denied, before.denied_seconds_ago) == (0, 0.0)
    assert before.certificate_ends > time.time() + 3600
    assert abs(before.clock_ns / 1e9 - time.time()) < 60
    await denied(guarded.client("stranger"), "source", "orders.eu")
    after = await told()
    assert after.denied >= 1
    assert 0.0 < after.denied_seconds_ago < 60


async def first_answer(channel: grpc.aio.Channel, method: Any, request: Any) -> None:
    """Make a call of any kind, and read its first answer. Raises the error of the call."""
    call = getattr(StoreStub(channel), method.name)

    async def requests() -> AsyncIterator[Any]:
        yield request

    answer = call(requests()) if method.client_streaming else call(request)
    with errors_of("the store"):
        async with asyncio.timeout(10):
            if method.server_streaming:
                await anext(aiter(answer))
            else:
                await answer


async def test_no_call_is_served_to_a_stranger(guarded: Guarded) -> None:
    await guarded.start()
    called = set()
    async with open_channel(guarded.stores.address("a"), guarded.files("stranger")) as channel:
        for method in store_pb2.DESCRIPTOR.services_by_name["Store"].methods:
            request: Any = GetMessageClass(method.input_type)()
            if method.name == "Acknowledge":
                request.acknowledgements.add()
            if method.name == "Archived":
                request.sources.add()
            called.add(method.name)
            # The error of these is in an answer.
            of = {"Restore": restored, "Append": appended, guard.BUNDLE: bundled}
            if (answered := of.get(method.name)) is not None:
                with pytest.raises(AccessDenied):
                    await answered(channel)
                continue
            with pytest.raises(AccessDenied) as caught:
                await first_answer(channel, method, request)
            assert caught.value.identity == "stranger", method.name
    assert called == methods(store_pb2)


async def restored(channel: grpc.aio.Channel) -> None:
    """Call Restore, and raise the error in its answer."""

    async def requests() -> AsyncIterator[store_pb2.RestoreRequest]:
        yield store_pb2.RestoreRequest(open=store_pb2.RestoreOpen())

    answer = await anext(aiter(StoreStub(channel).Restore(requests())))
    raise failure_from_wire(answer.failed, "the store")


async def appended(channel: grpc.aio.Channel) -> None:
    """Open a lane, and raise the error with which it ends."""

    async def requests() -> AsyncIterator[store_pb2.AppendFrames]:
        yield store_pb2.AppendFrames(frames=[store_pb2.LaneFrame(lane=1, frame=Frame())])

    answers = await anext(aiter(StoreStub(channel).Append(requests())))
    raise failure_from_wire(answers.responses[0].response.failed, "the store")


async def bundled(channel: grpc.aio.Channel) -> None:
    """Make each kind of call in a bundle, and raise the last error of them. All must fail."""
    bundle = Bundle("the store", lambda: StoreStub(channel), lambda: None)
    position = store_pb2.Acknowledgement()
    calls = (
        bundle.register_receiver(store_pb2.RegisterReceiverRequest(), 10.0),
        bundle.acknowledge(store_pb2.AcknowledgeRequest(acknowledgements=[position]), 10.0),
        bundle.promise(store_pb2.PromiseRequest(), 10.0),
        bundle.begin(store_pb2.BeginRequest(), 10.0),
        bundle.watch(store_pb2.WatchRequest()).read(),
    )
    errors = await asyncio.gather(*calls, return_exceptions=True)
    await bundle.close()
    assert [type(error) for error in errors] == [AccessDenied] * 5
    assert isinstance(errors[-1], AccessDenied)
    raise errors[-1]


@pytest.mark.expects_log("may not")
async def test_one_call_of_a_bundle_is_refused_while_others_are_served(guarded: Guarded) -> None:
    await guarded.start()
    async with guarded.client("sender") as sending, guarded.client("reader") as reading:
        await sending.source("orders.eu", session_id=1)
        opened, refused = await asyncio.gather(
            reading.receiver("orders.eu", session_id=2),
            reading.receiver("trades", session_id=2),
            return_exceptions=True,
        )
        assert isinstance(opened, Receiver)
        assert isinstance(refused, AccessDenied)
        assert (refused.verb, refused.topic) == ("receive", "trades")


@pytest.mark.expects_log("may not")
async def test_a_sender_may_not_delete(guarded: Guarded) -> None:
    await guarded.start()
    async with guarded.client("sender") as sending:
        orders = await sending.source("orders", session_id=1)
        await orders.publish(b"one")
        with pytest.raises(QuorateError, match="may not delete topic orders"):
            await orders.deregister(timeout=3)


async def test_what_people_look_at(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    await guarded.start()
    stores = guarded.stores.addresses("a")

    def become(identity: str) -> None:
        for name, value in environment_of(guarded.files(identity)).items():
            monkeypatch.setenv(name, value)

    for identity in ("viewer", "operator"):
        become(identity)
        assert (await status.ask(stores[0].address, 5)).store_name == "a"
        (answer,) = (await journal.ask_all(stores, 5, "", 0)).values()
        assert not isinstance(answer, QuorateError)
    become("sender")
    with pytest.raises(AccessDenied, match="sender may not query all topics"):
        await status.ask(stores[0].address, 5)


async def test_refusals_are_counted_and_logged_once_for_an_identity_and_a_verb(
    guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "quorate.store.rpc.service")
    await guarded.start()
    async with guarded.client("stranger") as client:
        for number in range(4):
            with pytest.raises(AccessDenied):
                await client.subscriber(f"orders.{number}", begin="epoch")
    said = [
        record.getMessage()
        for record in caplog.records
        if record.name == "quorate.store.rpc.service" and "AccessDenied" in record.getMessage()
    ]
    assert len(said) == 1
    assert "stranger may not subscribe" in said[0]
    engine = guarded.stores._nodes["a"]._engine
    assert engine is not None
    assert engine.rejected == 4


@pytest.mark.expects_log("may not")
async def test_tokens_name_callers_without_certificates(
    guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    token = new_token()
    guarded.tokens.write_text(f"# those who read\nreader {hash_of(token)}\n")
    await guarded.start(mutual=False, tokens=str(guarded.tokens))
    path = guarded.path / "token"
    path.write_text(f"{token}\n")
    ca = guarded.files("reader").ca
    stores = guarded.stores.named("a")
    async with connect(stores, tls=Tls(ca, token=str(path))) as client:
        async with client.subscriber("orders", begin="epoch"):
            pass
        guarded.tokens.write_text("")
        with pytest.raises(AccessDenied, match="A caller without an identity"):
            await client.subscriber("orders", begin="epoch")
    error = await denied(connect(stores, tls=Tls(ca), timeout=5), "subscriber", "orders")
    assert error.identity == ""
    key = secret_of(guarded.tls["key"])
    said = caplog.text + str(error) + repr(error) + repr(Tls(ca, token=str(path)))
    said += repr(vars(guarded.stores._nodes["a"]))
    assert "AccessDenied" in said
    assert not [secret for secret in (token, hash_of(token), key) if secret in said]


def secret_of(path: str) -> str:
    """Return a line of a private key."""
    return Path(path).read_text().splitlines()[1]


def limited(identity: str, verb: str, **limits: float) -> list[dict[str, Any]]:
    return [{"identities": [identity], "verbs": [verb], **limits}]


@pytest.mark.expects_log("has 1 subscriptions")
async def test_the_subscriptions_of_an_identity_are_bounded(guarded: Guarded) -> None:
    guarded.rules = limited("*", "subscribe", subscriptions_max=1)
    await guarded.start()
    async with guarded.client("reader") as one, guarded.client("other") as other:
        first = await one.subscriber("orders", begin="epoch")
        async with guarded.client("reader") as two:
            with pytest.raises(LimitReached) as caught:
                await two.subscriber("orders", begin="epoch", timeout=0.5)
        assert (caught.value.identity, caught.value.most) == ("reader", 1)
        assert caught.value.retryable
        async with other.subscriber("orders", begin="epoch"):
            pass
        await first.close()
        async with one.subscriber("orders", begin="epoch", timeout=10):
            pass


@pytest.mark.expects_log("has 1 connections")
async def test_the_connections_of_an_identity_are_bounded(guarded: Guarded) -> None:
    guarded.rules = limited("*", "subscribe", connections_max=1)
    await guarded.start()
    async with (
        guarded.client("reader") as one,
        guarded.client("reader") as two,
        one.subscriber("a", begin="epoch"),
        one.subscriber("b", begin="epoch"),
    ):
        with pytest.raises(LimitReached, match="has 1 connections"):
            await two.subscriber("orders", begin="epoch", timeout=0.5)


async def test_the_bytes_of_an_identity_are_bounded(guarded: Guarded) -> None:
    guarded.rules = limited("*", "send", bytes_per_second_max=100_000)
    await guarded.start()
    async with guarded.client("sender") as client:
        orders = await client.source("orders")
        began = time.monotonic()
        for _ in range(5):
            await orders.publish(bytes(50_000))
        took = time.monotonic() - began
    assert 1.0 < took < 10.0, "250 KB, of which 100 KB may come at once"


async def test_an_unknown_token_is_worth_less_than_none(guarded: Guarded) -> None:
    await guarded.start(tokens=str(guarded.tokens))
    path = guarded.path / "token"
    path.write_text(new_token())
    reader = guarded.files("reader")
    tls = Tls(reader.ca, reader.certificate, reader.key, str(path))
    client = connect(guarded.stores.named("a"), tls=tls, timeout=5)
    assert (await denied(client, "subscriber", "orders")).identity == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[access]]\nidentities = ["a"]\nverbs = ["send"]', "access needs tls"),
        ('[[access]]\nidentities = ["a"]\nverbs = ["sned"]', "access.0.verbs.0"),
        ('[[access]]\nidentities = []\nverbs = ["send"]', "access.0.identities"),
        ('[[access]]\nidentities = ["a"]\nverbs = ["send"]\ntopics = ["("]', "access.0.topics.0"),
        (
            '[[access]]\nidentities = ["a"]\nverbs = ["send"]\n'
            '[tls]\nca = "c"\ncertificate = "c"\nkey = "k"\nmutual = false',
            "access needs tls.tokens",
        ),
    ],
)
def test_rules_that_cannot_hold_are_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "store.toml"
    path.write_text(f'name = "a"\ndata_directory = "d"\n{text}\n')
    with pytest.raises(ConfigurationInvalid) as caught:
        load(path)
    assert says in str(caught.value)


def test_only_a_store_may_greet_a_store() -> None:
    call = guard.CALLS["Inventory"]
    greeting = store_pb2.Greeting(store_name="b")
    assert call.verbs(store_pb2.InventoryRequest(greeting=greeting)) == (Verb.REPLICATE,)
    assert Verb.QUERY in call.verbs(store_pb2.InventoryRequest())


def test_the_document_names_the_verbs_of_every_call() -> None:
    text = (Path(__file__).parents[3] / "docs" / "security.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.M))
    for name, call in guard.CALLS.items():
        of_call: dict[str, list[Any]] = {
            "Deregister": [
                store_pb2.DeregisterRequest(),
                store_pb2.DeregisterRequest(receiver_session_id=1),
                store_pb2.DeregisterRequest(unused_promise_to=b"i"),
                store_pb2.DeregisterRequest(expired=True),
            ],
            "Inventory": [store_pb2.InventoryRequest()],
        }
        verbs = {str(verb) for request in of_call.get(name, [None]) for verb in call.verbs(request)}
        assert set(re.findall(r"`(\w+)`", rows[name])) == verbs, name
    assert set(rows) >= set(guard.CALLS) | {"Attach", "Confirm", "Beat"}


def test_every_verb_permits_some_call() -> None:
    requests: dict[str, Any] = dict.fromkeys(guard.CALLS, store_pb2.DeregisterRequest())
    requests["Inventory"] = store_pb2.InventoryRequest()
    verbs = {verb for name, call in guard.CALLS.items() for verb in call.verbs(requests[name])}
    assert verbs == set(Verb)
