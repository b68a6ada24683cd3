"""A scenario whose first source is played by hand: it packs otherwise than ours ever would."""

from __future__ import annotations

from tests.simulation.asks import AppendRequest, AskedBegin, AskedPromise
from tests.simulation.world import Process
from tests.transcripts.stage import SOURCE, Stage

from quorate.protocol.begin import BeginRecord
from quorate.protocol.consensus import Behaviour
from quorate.protocol.framing import encode_batch
from quorate.protocol.lineage import Lineage, Term
from quorate.protocol.policy import Membership, Policy
from quorate.protocol.wire import policy_to_wire, source_to_wire
from quorate.source.protocol.frames import (
    batch_frame,
    open_frame,
)
from quorate.source.protocol.registration import AskBegin
from quorate.v1 import messages_pb2 as v1


async def _play(stage: Stage, process: Process, batches: dict[str, int]) -> None:
    """Register, and send each store one batch with everything up to its number."""
    me, policy = process.name.encode(), Policy.majority_of(stage.stores)
    lineage, membership = Lineage((Term(1, 0),)), Membership((policy,), (policy,))
    disks: dict[str, bytes] = {}
    for store in stage.stores:
        asked = AskedPromise(SOURCE, 1, me, take_over=False, decided_epoch=0)
        promised = await stage.network.call(process, store, "promise", asked)
        disks[store] = promised.grant.incarnation
    for store in stage.stores:
        step = AskBegin(BeginRecord(lineage, membership), disks[store])
        await stage.network.call(process, store, "begin", AskedBegin(SOURCE, step, me))
    information = v1.SourceInformation(
        source=source_to_wire(SOURCE), epoch=1, policy=policy_to_wire(policy), version=1
    )
    for store, upto in batches.items():
        end = stage.network.connect(process, store, "append", AppendRequest(me))
        await end.write(open_frame(information, me, disks[store], 0, -1, v1.Lifetimes()))
        await end.read()
        payloads = [f"by hand {number}".encode() for number in range(upto + 1)]
        await end.write(batch_frame(encode_batch(SOURCE, 1, 0, payloads, 0), -1))
        await end.read()


def batch_that_straddles_what_is_kept() -> Stage:
    """Of a batch only the first half is kept: the rest of it is void, though it stays on the disk.

    A source that is played by hand packed for each store anew. The next one has `lowest` as its
    behaviour: it keeps what may have been stable, 0 to 1, and nothing more.
    """
    stage = Stage()
    stage.story.silent = True
    process = stage.by_hand()
    process.start(_play(stage, process, {"store1": 3, "store2": 1}))
    stage.until(stage.holds("store2", 1))
    stage.settle()
    stage.story.silent = False
    stage.say(
        "source1 had store1 hold 0 to 3 in one batch, store2 0 to 1 in another; then it died."
    )
    process.kill()
    stage.network.killed(process)
    stage.settle(0.1)
    again = stage.source(consensus=Behaviour.LOWEST)
    stage.until(lambda: again.core.complete)
    stage.send(again)
    stage.until(stage.stable(again, 2))
    stage.settle()
    receiver = stage.receiver()
    stage.until(stage.has_taken(receiver, 2))
    stage.settle(0.3)
    return stage
