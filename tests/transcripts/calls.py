"""How the calls between sources, receivers, stores and operators read in a story.

Each function returns what one end says to the other; empty: it is not worth telling. Nothing here
knows who says it to whom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.transcripts import words

from quorate.protocol.framing import read_header
from quorate.protocol.wire import (
    begin_from_wire,
    held_from_wire,
    lineage_from_wire,
)
from quorate.transport.failures import failure_from_wire
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import source_pb2 as source_v1
from quorate.v1 import store_pb2 as store_v1

_WHY_MISSING = {
    v1.LOOKUP_ABSENT: "I do not have",
    v1.LOOKUP_LOST: "an operator accepted the loss of",
    v1.LOOKUP_RELEASED: "retention let go of",
}


def parts(message: Any) -> Iterator[tuple[int, Any]]:
    """Yield what a message has in it that is said by itself.

    Each has a number. In a bundle, what is asked and its answer have the same.
    """
    match message:
        case store_v1.BundleRequest():
            for call in message.calls:
                yield call.id, getattr(call, call.WhichOneof("request"))
        case store_v1.BundleResponse():
            for answer in message.answers:
                yield answer.id, getattr(answer, answer.WhichOneof("answer"))
        case store_v1.AppendFrames():
            yield from ((0, each.frame) for each in message.frames)
        case store_v1.AppendResponses():
            for each in message.responses:
                if kind := each.response.WhichOneof("kind"):
                    yield 0, getattr(each.response, kind)
        case store_v1.SubscribeResponse():
            yield from ((0, getattr(each, each.WhichOneof("kind"))) for each in message.given)
            if message.completed:
                yield 0, message
        case v1.FetchResponse():
            # Its end is worth telling only to one that asks whether there is more.
            is_end = len(message.answers) == 1
            yield from ((0, each) for each in message.answers if is_end or not each.HasField("end"))
        case _:
            yield 0, message


def said(part: Any) -> str:
    """Return what a part of a message says."""
    say = _SAYINGS.get(type(part))
    return say(part) if say is not None else ""


def answered(part: Any, asked: Any) -> str:
    """Return what a part of a message says that answers something."""
    match part, asked:
        case store_v1.PromiseResponse(), store_v1.PromiseRequest():
            return _promised(part, asked)
        case store_v1.BeginResponse(), store_v1.BeginRequest():
            return _begun(part, asked)
        case store_v1.DeregisterResponse(), store_v1.DeregisterRequest():
            return _deregistered(part, asked)
    return said(part)


def failure(told: v1.Failure) -> str:
    """Return why something is refused."""
    return words.error(failure_from_wire(told, ""))


# A source registers.


def _promise(asked: store_v1.PromiseRequest) -> str:
    last = f"; I have begun epoch {asked.decided_epoch}" if asked.decided_epoch else ""
    return f"promise me epoch {asked.epoch}{', I take over' if asked.take_over else ''}{last}"


def _promised(answer: store_v1.PromiseResponse, asked: store_v1.PromiseRequest) -> str:
    said = ["in limbo" if answer.limbo else f"epoch {asked.epoch} is promised"]
    begun = begin_from_wire(answer.begun)
    if not begun.epoch:
        return f"{said[0]}; I know nothing of this stream"
    end = ", the end of the stream" if begun.ended else ""
    said.append(f"I have begun {words.lineage(begun.lineage)}{end}")
    said.append(f"I hold {words.ranges(held_from_wire(answer.held))}")
    said.append(words.told(answer.stable_upto))
    if losses := held_from_wire(answer.accepted_losses):
        said.append(f"accepted as lost: {words.ranges(losses)}")
    return "; ".join(said)


def _begin(asked: store_v1.BeginRequest) -> str:
    record = begin_from_wire(asked.begin)
    change = words.membership(record.membership) if record.membership is not None else ""
    return f"begin {words.lineage(record.lineage)}{change}"


def confirm(asked: store_v1.BeginRequest) -> str:
    """Return a begin that was sent before, with fewer policies."""
    return words.confirmed(begin_from_wire(asked.begin))


def _begun(answer: store_v1.BeginResponse, asked: store_v1.BeginRequest) -> str:
    set_aside = f"; {answer.set_aside} set aside" if answer.set_aside else ""
    return f"epoch {begin_from_wire(asked.begin).epoch} is begun{set_aside}"


# A stream.


def _frame(frame: v1.Frame) -> str:
    """Each frame says how far the stream is stable, and a keepalive says nothing else."""
    known = f"stable up to {frame.stable_upto}" if frame.stable_upto >= 0 else ""
    if frame.HasField("keepalive"):
        return known
    said = _in_frame(frame)
    return f"{said}; {known}" if said and known else said


def _in_frame(frame: v1.Frame) -> str:
    match frame.WhichOneof("kind"):
        case "open":
            opened = frame.open
            retained = f"I still have {opened.retained_from} and later"
            return f"open the stream, epoch {opened.information.epoch}; {retained}"
        case "batch":
            header = read_header(frame.batch)
            return f"{words.messages(header.first, header.last)} of epoch {header.epoch}"
        case "skip":
            return f"I no longer have {words.numbers(frame.skip.first, frame.skip.last)}"
        case "attached":
            return f"attached; {frame.attached.next_sequence} comes next"
        case "goodbye":
            return "goodbye"
    return ""


def _opened(answer: store_v1.AppendOpened) -> str:
    if answer.durability == v1.DURABILITY_STATE_ONLY:
        return "opened; I take no messages"
    return f"opened; I lack {answer.next_sequence} and later"


def _durable(answer: store_v1.Durable) -> str:
    return f"durable {words.upto(answer.upto)}"


def _replaced(told: store_v1.StoreReplaced) -> str:
    return f"{told.store_name} lost its data; what it acknowledged before counts no more"


# A receiver.


def _register(asked: store_v1.RegisterReceiverRequest) -> str:
    ended = f"; I was ended up to epoch {asked.ended_epoch}" if asked.ended_epoch else ""
    if asked.asks_only:
        return f"where was I?{ended}"
    return f"register me in epoch {asked.epoch}{ended}"


def _registered(answer: store_v1.RegisterReceiverResponse) -> str:
    if answer.limbo:
        return "in limbo"
    said = [f"you were done with {words.upto(answer.acknowledged_upto)}"]
    if answer.ended_epoch:
        said.append(f"you were ended up to epoch {answer.ended_epoch}")
    has = words.numbers(answer.low, answer.high) if answer.high >= 0 else "nothing"
    return "; ".join([*said, f"I hold {has}", words.told(answer.stable_upto)])


def _acknowledge(asked: store_v1.AcknowledgeRequest) -> str:
    upto = max(each.upto for each in asked.acknowledgements)
    return f"I am done with {words.upto(upto)}" if upto >= 0 else ""


def _acknowledged(answer: store_v1.AcknowledgeResponse) -> str:
    return "; ".join(failure(refused.failure) for refused in answer.refused)


def _attach(_: source_v1.AttachRequest) -> str:
    return "attach me"


# What is asked for is not told: receivers also ask for what may not exist yet.


def _fetched(answer: v1.FetchAnswer) -> str:
    match answer.WhichOneof("kind"):
        case "fetched":
            return _given(answer.fetched)
        case "missing":
            missing = answer.missing
            why = _WHY_MISSING.get(missing.why, "I cannot say whether I have")
            is_open = missing.last - missing.first > 1000
            return "" if is_open else f"{why} {words.numbers(missing.first, missing.last)}"
        case "end" if answer.end.stable_upto >= 0:
            return f"stable up to {answer.end.stable_upto}"
    return ""


# A subscriber.


def _subscribe(asked: store_v1.SubscribeRequest) -> str:
    if not asked.position.places:
        return "give me all from the first message on"
    places = [f"{place.sequence} of epoch {place.epoch}" for place in asked.position.places]
    return f"give me all behind {', '.join(places)}"


def _given(part: v1.Fetched) -> str:
    return f"here is {words.numbers(part.first, part.last)}"


def _completed(_: store_v1.SubscribeResponse) -> str:
    return "that was all until now"


# Ends.


def _deregister(asked: store_v1.DeregisterRequest) -> str:
    if asked.unused_promise_to:
        return "I do not need the promise any more"
    if asked.receiver_session_id:
        return f"end me, I had epoch {asked.epoch}"
    if asked.durable:
        return f"epoch {asked.epoch} counts, the stream has ended"
    if asked.HasField("membership"):
        return f"begin epoch {asked.epoch}, it ends the stream"
    return f"promise me epoch {asked.epoch}, to end the stream"


def _deregistered(answer: store_v1.DeregisterResponse, asked: store_v1.DeregisterRequest) -> str:
    if asked.unused_promise_to or asked.durable:
        return ""
    if asked.receiver_session_id:
        return f"ended; you were done with {words.upto(answer.last_sequence)}"
    if asked.HasField("membership"):
        return f"epoch {asked.epoch} is begun"
    return f"epoch {asked.epoch} is promised; I hold {words.upto(answer.last_sequence)}"


# Operators.


def _accept_loss(asked: store_v1.AcceptLossRequest) -> str:
    if asked.first < 0:
        return "go on with what you have"
    return f"{words.numbers(asked.first, asked.last)} are lost for good"


def _loss_accepted(_: store_v1.AcceptLossResponse) -> str:
    return "recorded"


_SAYINGS: dict[type, Callable[[Any], str]] = {
    store_v1.PromiseRequest: _promise,
    store_v1.BeginRequest: _begin,
    v1.Frame: _frame,
    store_v1.AppendOpened: _opened,
    store_v1.Durable: _durable,
    store_v1.StoreReplaced: _replaced,
    v1.Failure: failure,
    store_v1.RegisterReceiverRequest: _register,
    store_v1.RegisterReceiverResponse: _registered,
    store_v1.AcknowledgeRequest: _acknowledge,
    store_v1.AcknowledgeResponse: _acknowledged,
    source_v1.AttachRequest: _attach,
    v1.FetchAnswer: _fetched,
    store_v1.DeregisterRequest: _deregister,
    store_v1.SubscribeRequest: _subscribe,
    store_v1.SubscribeResponse: _completed,
    v1.Fetched: _given,
    store_v1.AcceptLossRequest: _accept_loss,
    store_v1.AcceptLossResponse: _loss_accepted,
}


# Of stores among themselves.


def asked_of_peer(asked: store_v1.InventoryRequest) -> str:
    """Return what a store in limbo asks a peer."""
    return "what do you know of me?" if asked.without_sources else "what do you know?"


def known_by_peer(answer: store_v1.InventoryResponse) -> str:
    """Return what a peer tells a store in limbo."""
    said = []
    if answer.HasField("store"):
        said += ["I am blank"] if answer.store.blank else []
        said += ["I am in limbo"] if answer.store.limbo and not answer.store.blank else []
    for source in answer.sources:
        begun = lineage_from_wire(source.begun.lineage)
        said.append(f"epoch {source.promised_epoch} is promised")
        said += [f"I have begun {words.lineage(begun)}"] if begun else []
        said.append(f"I hold {words.ranges(held_from_wire(source.held))}")
        said.append(words.told(source.stable_upto))
    return "; ".join(said)
