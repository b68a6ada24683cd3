"""How what travels between stores, sources and receivers reads in a transcript.

None means that it is not worth telling. Nothing here knows who says it to whom.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tests.simulation.asks import (
    AskedAcknowledge,
    AskedBegin,
    AskedDeregister,
    AskedPromise,
    Begun,
    Durable,
    Entry,
    Opened,
    Promised,
    Registered,
    RegisteredReceiver,
)

from quorate.protocol.errors import Fenced, QuorateError
from quorate.protocol.framing import check_batch
from quorate.protocol.limits import SEQUENCE_MAX
from quorate.protocol.lineage import Lineage
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.ranges import HeldRange, Range
from quorate.protocol.wire import held_from_wire, lineage_from_wire
from quorate.receiver.protocol.registration import RegistrationRequest
from quorate.source.protocol.registration import Grant
from quorate.store.storage.records import (
    Registration,
    StoreRecord,
)
from quorate.v1 import messages_pb2 as v1
from quorate.v1 import store_pb2 as store_v1


def numbers(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def upto(number: int) -> str:
    return "nothing" if number < 0 else f"up to {number}"


def ranges(held: Sequence[Range | HeldRange]) -> str:
    if not held:
        return "nothing"
    epochs = {item.epoch for item in held if isinstance(item, HeldRange)}
    texts = []
    for item in held:
        text = numbers(item.first, item.last)
        if len(epochs) > 1 and isinstance(item, HeldRange):
            text += f" (epoch {item.epoch})"
        texts.append(text)
    return ", ".join(texts)


def lineage(terms: Lineage) -> str:
    return ", ".join(f"epoch {term.epoch} from {term.first}" for term in terms.terms)


def membership(record: Membership | None) -> str:
    """Only a change is worth telling."""
    if record is None or record.from_policies == record.to_policies:
        return ""
    before = " and ".join(map(policy, record.from_policies))
    after = " and ".join(map(policy, record.to_policies))
    return f"; from {before} to {after}"


def policy(named: Policy) -> str:
    """In braces: the stores of each group; the rules are the scenario's."""
    return " ".join("{" + ", ".join(group.stores) + "}" for group in named.groups)


def error(what: BaseException) -> str:
    text = type(what).__name__
    if isinstance(what, Fenced):
        text += f": epoch {what.epoch}, where {what.promised} is promised"
    return text


def request(method: str, asked: Any) -> str | None:
    match asked:
        case AskedPromise():
            taking_over = ", and take over" if asked.take_over else ""
            had = f"; my last was {asked.decided_epoch}" if asked.decided_epoch else ""
            return f"promise epoch {asked.epoch}{taking_over}{had}"
        case AskedBegin(_, step):
            return f"begin {lineage(step.begin.lineage)}{membership(step.begin.membership)}"
        case RegistrationRequest():
            over = f"; I was over up to epoch {asked.ended_epoch}" if asked.ended_epoch else ""
            if asked.asks_only:
                return f"where was I? do not register me yet{over}"
            return f"register me, epoch {asked.epoch}{over}"
        case AskedDeregister(receiver=receiver) if receiver:
            return f"forget me, epoch {asked.epoch}"
        case AskedAcknowledge():
            return f"I have consumed everything up to {asked.upto}" if asked.upto >= 0 else None
        case v1.FetchRequest():
            # Repair asks for one number to learn how far its peer is told that things are stable.
            return f"give me {numbers(asked.first, asked.last)}" if asked.last < 2**40 else None
    return "attach me" if method == "attach" else None


def answer(value: Any) -> str | None:
    match value:
        case Promised():
            return _grant(value.grant)
        case Registered(RegisteredReceiver(told, in_limbo)):
            had = upto(told.acknowledged_upto)
            has = ranges([Range(told.low, told.high)]) if told.high >= 0 else "nothing"
            over = f"; you were over up to epoch {told.ended_epoch}" if told.ended_epoch else ""
            limbo = "; in limbo" if in_limbo else ""
            return f"you had consumed {had}{over}; I hold {has}{limbo}"
        case Begun():
            return f"begun; {value.set_aside} set aside" if value.set_aside else "begun"
    return None


def _grant(value: Grant) -> str:
    promise = value.promise
    text = "in limbo" if promise.limbo else "promised"
    if not promise.begun.epoch:
        return f"{text}; I know nothing"
    return (
        f"{text}; I have begun {lineage(promise.begun.lineage)}; "
        f"hold {ranges(promise.held)}; stable is {upto(promise.stable_upto)}"
    )


def item(carried: Any) -> str | None:
    """What a stream carries."""
    match carried:
        case bytes():
            return _frame(v1.Frame.FromString(carried))
        case Opened(durability=v1.DURABILITY_STATE_ONLY):
            return "opened; I take no messages"
        case Opened():
            return f"opened; I lack {carried.next_sequence}"
        case Durable():
            return f"durable {upto(carried.upto)}"
        case v1.FetchResponse():
            return _answers(carried)
    return None


def entry(told: Entry) -> str:
    """What a directory says of the source."""
    source = told.information.address
    if told.live:
        return f"{source} is there, in epoch {told.information.epoch}"
    return f"{source} is away" + (f"; {told.proxy} answers for it" if told.proxy else "")


def _frame(frame: v1.Frame) -> str | None:
    stable = f"; stable is {upto(frame.stable_upto)}"
    match frame.WhichOneof("kind"):
        case "open":
            return f"open epoch {frame.open.information.epoch}; I still have {_from(frame)}{stable}"
        case "batch":
            header = check_batch(frame.batch)
            text = f"messages {numbers(header.first, header.last)} of epoch {header.epoch}"
            return text.replace("messages", "message") if header.first == header.last else text
        case "skip":
            skipped = numbers(frame.skip.first, frame.skip.last)
            return f"{skipped} I no longer have{stable}"
        case "goodbye":
            return f"goodbye{stable}"
        case "attached":
            return f"attached; {frame.attached.next_sequence} comes next"
    return None


def _from(frame: v1.Frame) -> str:
    return f"everything from {frame.open.retained_from} on"


def _answers(response: v1.FetchResponse) -> str | None:
    texts = [text for each in response.answers if (text := _answer(each)) is not None]
    return "; ".join(texts) or None


def _answer(answer: v1.FetchAnswer) -> str | None:
    match answer.WhichOneof("kind"):
        case "fetched":
            fetched = answer.fetched
            header = check_batch(fetched.batch)
            text = f"here is {numbers(fetched.first, fetched.last)}"
            if (fetched.first, fetched.last) != (header.first, header.last):
                text += f", of a batch of {numbers(header.first, header.last)}"
            return text
        case "missing":
            missing = answer.missing
            why = {
                v1.LOOKUP_ABSENT: "I do not have",
                v1.LOOKUP_LOST: "an operator gave up",
                v1.LOOKUP_RELEASED: "let go on purpose",
            }.get(missing.why, "I can not say whether I have")
            if missing.last == SEQUENCE_MAX:
                return f"{why} {missing.first} nor anything after"
            return f"{why} {numbers(missing.first, missing.last)}"
    return None


def event(told: Any) -> str:
    """What a source tells its application."""
    fields = []
    for field in dataclasses.fields(told):
        value = getattr(told, field.name)
        if isinstance(value, QuorateError):
            value = error(value)
        elif isinstance(value, bytes):
            value = value.decode()
        elif isinstance(value, float):
            value = f"{value:.1f}"
        elif isinstance(value, tuple):
            texts = [policy(one) if isinstance(one, Policy) else str(one) for one in value]
            value = ", ".join(texts) or "none"
        fields.append(f"{field.name} {value}")
    return f"{type(told).__name__}: {'; '.join(fields)}"


def registered(before: Registration | None, now: Registration) -> list[str]:
    """What has become durable of a source's registration."""
    parts = []
    if before is None or before.promised_epoch != now.promised_epoch:
        parts.append(f"promise of epoch {now.promised_epoch} to {now.promised_to.decode()}")
    if now.begun.epoch and (before is None or before.begun.epoch != now.begun.epoch):
        begun = now.begun
        parts.append(f"begin of {lineage(begun.lineage)}{membership(begun.membership)}")
    elif before is not None and before.begun.membership != now.begun.membership:
        parts.append("begin that has forgotten where it came from")
    if now.clean and before is not None and not before.clean:
        parts.append("goodbye")
    return parts


def store_record(before: StoreRecord | None, now: StoreRecord) -> list[str]:
    """What has become durable of the store itself."""
    parts = []
    if before is None or before.incarnation != now.incarnation:
        parts.append(f"I am {now.incarnation.decode()}")
    if now.limbo and (before is None or not before.limbo):
        parts.append("in limbo" if now.blank else f"in limbo: {now.limbo}")
    if before is not None and before.limbo and not now.limbo:
        parts.append("out of limbo")
    if now.founders and (before is None or not before.founders):
        names = sorted(founder.store_name for founder in now.founders)
        parts.append(f"founder of a new group with {', '.join(names)}")
    return parts


def inventory(
    responses: Sequence[store_v1.InventoryResponse], request: store_v1.InventoryRequest
) -> str:
    """What a store tells one in limbo."""
    parts, asker = [], request.greeting
    for response in responses:
        if response.HasField("store"):
            parts += ["I am blank"] if response.store.blank else []
            parts += ["in limbo myself"] if response.store.limbo else []
            met = response.store.remembered
            has_less = asker.starts < met.starts or asker.commits < met.commits
            if met.incarnation == asker.incarnation and has_less:
                parts.append(f"I knew of your start {met.starts} and {met.commits} commits")
        for source in response.sources:
            held = ranges(held_from_wire(source.held))
            begun = lineage(lineage_from_wire(source.begun.lineage)) or "nothing"
            parts.append(
                f"epoch {source.promised_epoch} is promised; begun {begun}; I hold {held}; "
                f"stable is {upto(source.stable_upto)}"
            )
            parts += [
                f"a receiver is over up to epoch {receiver.epoch}"
                for receiver in source.ended_receivers
            ]
    nothing = "nothing against you" if request.without_sources else "I know no source"
    return "; ".join(parts) or nothing
