"""Findings about one store: it does not answer, is in limbo, is full, or was told strange things.

Pure. Findings about several stores together are in quorate.console.group.rules.agreement.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime

from quorate.console.group.rules.findings import Bounds, Finding, Kind, Severity
from quorate.console.group.rules.source_status import name_of
from quorate.protocol.errors import (
    AccessDenied,
    NotAStore,
    QuorateError,
    StorageFailed,
    TlsFailed,
    Unreachable,
    VersionMismatch,
)
from quorate.protocol.identity import StoreAddress
from quorate.protocol.limits import NOTHING
from quorate.v1.store_pb2 import LossRecord, StatusResponse

_MIB = 1024 * 1024
_DAY_SECONDS = 86_400.0
_DENIED_RECENTLY_SECONDS = 3600.0


def silent(store: StoreAddress, error: QuorateError) -> Finding:
    """Return the finding about a store that gave no status."""
    name = f"Store {store.name}" if store.name != store.address else "The store"
    what = f"{name} at {store.address} gives no status: {cause_of(error)}."
    match error:
        case StorageFailed():
            return Finding(
                Severity.CRITICAL, Kind.WRITE_ERROR, store.name, what,
                "The store has stopped, because after a failed write no later one can be trusted.",
                "Read its log, make room or replace the disk, then start it again.",
            )  # fmt: skip
        case TlsFailed() | AccessDenied() | NotAStore() | VersionMismatch():
            return Finding(
                Severity.CRITICAL, Kind.REFUSED, store.name, what,
                "Something answers at the address, and this command cannot speak with it.",
                "Compare the address, the version, the TLS files and the rules of access.",
            )  # fmt: skip
        case _:
            return Finding(
                Severity.CRITICAL, Kind.UNREACHABLE, store.name, what,
                "The store does not run, hangs, or the network does not lead to it. Sources go on "
                "while enough other stores answer them.",
                "Start the store, or look at its log and at the network. It catches up by itself.",
            )  # fmt: skip


def cause_of(error: QuorateError) -> str:
    """Return the cause of an error without its next step, which is the same for all stores."""
    if isinstance(error, Unreachable | NotAStore | TlsFailed | StorageFailed):
        return error.detail
    return str(error).removesuffix(".")


def troubles(answer: StatusResponse) -> Iterator[Finding]:
    """Yield what keeps a store from doing its work."""
    name = answer.store_name
    store = f"Store {name}"
    if answer.repair.divergent and not any(source.conflicts for source in answer.sources):
        yield Finding(
            Severity.CRITICAL, Kind.CONFLICT, name,
            f"{store} holds other content than another store for {answer.repair.divergent} of its "
            "sources.",
            "Readers may get one content from one store and another one from the other.",
            "`quorate repair` names them.",
        )  # fmt: skip
    if why := answer.retention.held_up:
        yield Finding(
            Severity.WARNING, Kind.RETENTION, name,
            f"{store} frees no disk space of released messages: {why}",
            "The disk fills up, and the store stops before it is full.",
            "Check the disk of the store. Replace the disk if reads fail again.",
        )  # fmt: skip
    if why := answer.capacity.kept_because:
        yield Finding(
            Severity.WARNING, Kind.HELD, name,
            f"{store} has more than store_bytes_max = {answer.capacity.bytes_max:,} bytes, and "
            f"cannot let more go. {why[:1].upper()}{why[1:]}.",
            "The journal grows, and the store stops before the disk is full.",
            "See to what keeps the messages, or raise store_bytes_max.",
        )  # fmt: skip
    if full := _full(answer):
        yield Finding(
            Severity.WARNING, Kind.FULL, name,
            f"{store} keeps as many {full} as it may, and has refused "
            f"{answer.capacity.refused:,} registrations since it was started.",
            "New ones cannot register here. Those that it knows go on.",
            f"Deregister those that are gone for good, or raise {full}_max.",
        )  # fmt: skip
    if answer.disk_free_bytes < answer.disk_free_warning_bytes:
        yield Finding(
            Severity.WARNING, Kind.DISK, name,
            f"{store} has {answer.disk_free_bytes / _MIB:,.0f} MiB left on its disk, and stops at "
            f"{answer.disk_free_min_bytes / _MIB:,.0f} MiB.",
            "A store that stops takes part in no quorum.",
            f"Free space on the disk of {answer.data_directory}, or let retention release "
            "messages.",
        )  # fmt: skip
    yield from _in_limbo(answer)


def _full(answer: StatusResponse) -> str:
    """Return what the store may keep no more of; empty: nothing."""
    capacity = answer.capacity
    if 0 < capacity.sources_max <= answer.source_count:
        return "sources"
    return "receivers" if 0 < capacity.receivers_max <= capacity.receivers else ""


def _in_limbo(answer: StatusResponse) -> Iterator[Finding]:
    """Yield the limbo of a store as a whole, or for each source."""
    store = f"Store {answer.store_name} is in limbo"
    means = "The store cannot vouch for what it lacks, so what it lacks counts as unknown."
    steps = (
        "Wait while its peers fill it, and start those that are away. If they are gone for good: "
        f"`quorate store readmit {answer.store_name} --reason WHY`."
    )
    if answer.limbo:
        yield Finding(
            Severity.WARNING, Kind.LIMBO, answer.store_name,
            f"{store}: {answer.limbo_reason}.", means, steps,
        )  # fmt: skip
        return
    for source in answer.sources:
        if source.limbo:
            name = str(name_of(source))
            yield Finding(
                Severity.WARNING, Kind.LIMBO, name,
                f"{store} for {name}: {source.limbo_reason}.", means, steps,
            )  # fmt: skip


def signs(answer: StatusResponse, bounds: Bounds, silent_at: Collection[str]) -> Iterator[Finding]:
    """Yield what will keep a store from its work, and what people should know of it.

    silent_at: the addresses of the stores that gave no status. They have a finding of their own.
    """
    name = answer.store_name
    store = f"Store {name}"
    for peer in answer.peers:
        if not peer.reachable and peer.address not in silent_at:
            yield Finding(
                Severity.WARNING, Kind.PEER, name,
                f"{store} does not reach its peer {peer.store_name or peer.address} at "
                f"{peer.address}.",
                "The two stores neither repair each other nor compare what they hold.",
                "Start the peer, or look at the network between the two, and at `peers` in the "
                "configuration of the store.",
            )  # fmt: skip
    yield from _certificate(answer, bounds)
    if found := answer.repair.scrub.unreadable:
        yield Finding(
            Severity.NOTE, Kind.DAMAGE, name,
            f"{store} found {found:,} damaged messages on its disk since it was started.",
            "Peers give such messages back. A number that grows means that the disk is failing.",
            "If the number grows, replace the disk.",
        )  # fmt: skip
    if answer.denied:
        yield Finding(
            Severity.WARNING
            if answer.denied_seconds_ago < _DENIED_RECENTLY_SECONDS
            else Severity.NOTE,
            Kind.DENIED, name,
            f"{store} denied {answer.denied:,} calls since it was started, the last one "
            f"{answer.denied_seconds_ago:,.0f} s ago.",
            "Somebody shows a token or a certificate that permits less than what is asked for.",
            "The log of the store names the identity and the verb. Correct the client, or permit "
            "it with an `[[access]]` rule.",
        )  # fmt: skip
    for loss in answer.accepted_losses:
        if not loss.poison:
            yield _loss(name, loss)


def _certificate(answer: StatusResponse, bounds: Bounds) -> Iterator[Finding]:
    if not answer.certificate_ends:
        return
    # By the store's own clock, because the store and its clients compare the end with theirs.
    days = (answer.certificate_ends - answer.clock_ns / 1e9) / _DAY_SECONDS
    if days >= bounds.certificate_days:
        return
    when = datetime.fromtimestamp(answer.certificate_ends, UTC).isoformat(timespec="seconds")
    is_over = days <= 0
    yield Finding(
        Severity.CRITICAL if is_over else Severity.WARNING, Kind.CERTIFICATE, answer.store_name,
        f"The certificate of store {answer.store_name} "
        + (f"ended at {when}." if is_over else f"ends in {days:.1f} days, at {when}."),
        "From then on no client and no peer gets a new connection to the store.",
        "Replace the file of the certificate. The store takes the new one without a restart.",
    )  # fmt: skip


def _loss(store: str, loss: LossRecord) -> Finding:
    when = datetime.fromtimestamp(loss.time_ns / 1e9, UTC).isoformat(timespec="seconds")
    whose = f" of {loss.source.topic}/{loss.source.session_id:#x}"
    part = f"[{loss.first}, {loss.last}]{whose}"
    if loss.first == NOTHING:
        what = f"An operator had store {store} leave limbo" + (
            f" for{whose[3:]}" if loss.HasField("source") else ""
        )
    elif loss.kept:
        what = f"An operator settled a conflict at store {store}: {part} is as {loss.kept} has it"
    else:
        what = f"An operator accepted at store {store} that {part} is lost"
    return Finding(
        Severity.NOTE, Kind.LOSS, store,
        f"{what} ({when}; {loss.reason}).",
        "The record stays for ever. Receivers were told of each lost range as a Gap.",
        "Nothing.",
    )  # fmt: skip
