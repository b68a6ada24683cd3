"""The steps of a change of the stores: what is done, what is awaited, and the operator's part.

Pure. All of it is derived from the answers of the stores. So a command that was interrupted goes on
where the group is. The looks at the group are in quorate.console.group.change_watch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from quorate.console.group.rules.change_situation import NAMED_MAX, Situation, named
from quorate.console.group.rules.source_status import SourceView
from quorate.console.group.rules.store_change import layout_lines, names_of, peer_line
from quorate.protocol.addresses import place_of
from quorate.protocol.figures import counted
from quorate.protocol.identity import StoreAddress
from quorate.v1.store_pb2 import PeerStatus, StatusResponse

POLICIES = "The policies in force are the new ones"
"""The title of the step in which sources move."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a change."""

    title: str
    """The state of the group once the step is done."""
    waits_for: str
    """The part of that state that is missing; empty: the step is done."""
    lines: tuple[str, ...] = ()
    """The operator's part of it, as text."""

    @property
    def done(self) -> bool:
        """Whether the group is in that state."""
        return not self.waits_for

    def row(self) -> dict[str, Any]:
        """Return the step for programs."""
        return {
            "step": self.title,
            "done": self.done,
            "waits_for": self.waits_for or None,
            "to_do": [] if self.done else list(self.lines),
        }


def steps(situation: Situation) -> list[Step]:
    """Return the steps in their order, each with whether it is done."""
    change = situation.change
    found: list[Step] = []
    if change.keeps_name and _has_moved_away(situation):
        found.append(_stopped(situation))
    if change.new is not None:
        found += [_answers(situation, change.new), _left_limbo(situation, change.new)]
    found.append(_addresses(situation) if change.keeps_name else _policies(situation))
    found.append(_filled(situation))
    if change.old and not change.keeps_name:
        found.append(_stopped(situation))
    found.append(_peers(situation))
    return found


def _has_moved_away(situation: Situation) -> bool:
    """Return whether the store that keeps its name is known at another address, too."""
    change = situation.change
    return any(
        situation.own_name(store) == change.old and store.address != change.new_address
        for store in situation.answers
    )


def _answers(situation: Situation, new: StoreAddress) -> Step:
    others = [address for name, address in situation.staying.items() if name != new.name]
    where = "on a blank data directory"
    if situation.change.keeps_name:
        where = "with its data directory, or on a blank one if the disk is lost"
    lines = (
        f"Start {new.name} {where}. Its file has these lines:",
        f'name = "{new.name}"',
        f'advertise = "{new.address}"',
        peer_line(others),
    )
    missing = "" if situation.coming is not None else f"{new.name} to answer at {new.address}"
    return Step(f"{new.name} runs at {new.address}", missing, lines)


def _left_limbo(situation: Situation, new: StoreAddress) -> Step:
    answer = situation.coming
    missing = f"{new.name} to answer"
    if answer is not None:
        doubted = [source.limbo_reason for source in answer.sources if source.limbo]
        reason = answer.limbo_reason if answer.limbo else next(iter(doubted), "")
        missing = f"{new.name} to leave limbo: {reason}" if answer.limbo or doubted else ""
    return Step(f"{new.name} is out of limbo", missing, (
        "Nothing: its peers tell it what it lacks. Start those that are away.",
    ))  # fmt: skip


def _policies(situation: Situation) -> Step:
    """Return the step in which each source begins with its new policy."""
    placed, unmoved = situation.placed, situation.unmoved
    lines: list[str] = []
    by_target: dict[tuple[str, ...], list[SourceView]] = {}
    for view in unmoved:
        by_target.setdefault(tuple(_lines_for(situation, view)), []).append(view)
    for text, views in by_target.items():
        lines += [f"Open {named(views)} again with these lines:", *text]
    lines += _lines_of_lone(situation)
    missing = ""
    if unmoved:
        states = ", ".join(f"{view.name} ({_state(view)})" for view in unmoved[:NAMED_MAX])
        missing = f"{len(unmoved)} of {len(placed)} sources: {states}"
    elif unheard := _unheard(situation):
        missing = f"{', '.join(unheard)} to answer"
    return Step(POLICIES, missing, tuple(lines))


def _unheard(situation: Situation) -> list[str]:
    """Return the silent stores without which a later begin of a source may not be known."""
    heard = situation.at.keys()
    silent = sorted(situation.staying.keys() - heard)
    if not situation.placed:
        return silent
    for view in situation.placed:
        called = view.members.called
        for policy, _ in view.members.policies:
            if not policy.blocks(
                {name for name in policy.stores if called.get(name, name) in heard}
            ):
                return silent
    return []


def _state(view: SourceView) -> str:
    if len(view.members.policies) > 1:
        return "changing" if view.is_live else "away in the middle of the change"
    return "runs with the former policy" if view.is_live else "away"


def _lines_for(situation: Situation, view: SourceView) -> list[str]:
    """Return the lines with which a source is opened again."""
    addresses = situation.addresses(view)
    before, target = situation.move_of(view)
    return [
        *layout_lines(target, addresses),
        "",
        *layout_lines(before, addresses, "previous"),
    ]


def _addresses(situation: Situation) -> Step:
    """Return the step in which the sources that run reach a store at its new address."""
    change = situation.change
    assert change.new is not None
    place = place_of(change.new.address)
    elsewhere: dict[str, list[SourceView]] = {}
    for view in situation.placed:
        names = set().union(
            *(names_of(view, policy, change.old) for policy, _ in view.members.policies)
        )
        for entry in view.newest.information.stores:
            if view.is_live and entry.name in names and place_of(entry.address) != place:
                elsewhere.setdefault(entry.address, []).append(view)
    lines: list[str] = []
    for address, views in elsewhere.items():
        lines.append(
            f"Open {named(views)} again with {change.old}={change.new.address} in the place of "
            f"{change.old}={address}. The policy stays, so it needs no [[previous]]."
        )
    missing = "; ".join(
        f"{named(views)} to reach {change.old} there and not at {address}"
        for address, views in elsewhere.items()
    )
    return Step("The sources that run reach it", missing, tuple(lines))


def _filled(situation: Situation) -> Step:
    """Return the step after which the stores that stay hold every stable message."""
    change = situation.change
    lacking: dict[str, int] = {}
    for view in situation.placed:
        for policy, _ in view.members.policies:
            leaving = names_of(view, policy, change.old) if not change.keeps_name else set()
            for name in policy.stores - leaving:
                own = view.members.called.get(name, name)
                if own not in view.state_only and own in situation.at:
                    lacking[own] = lacking.get(own, 0) + view.lacking.get(own, 0)
    missing = ", ".join(
        f"{name} to get {counted(n, 'message')}" for name, n in lacking.items() if n
    )
    if change.new is not None and situation.coming is None:
        missing = f"{change.new.name} to answer"
    lines = list(_lines_of_lone(situation))
    lines = lines or ["Nothing: its peers fill each store. `quorate repair` does it at once."]
    return Step("The stores that stay have every stable message", missing, tuple(lines))


def _lines_of_lone(situation: Situation) -> Iterator[str]:
    """Yield what to do with stores in limbo that wait for the one that comes, and cannot ask it.

    Such a store lost its disk during the change. The policies in force name the store that comes,
    and the peers of the store in limbo do not.
    """
    staying = situation.staying
    for name, (_, answer) in situation.at.items():
        in_limbo = answer.limbo or any(source.limbo for source in answer.sources)
        if name in staying and in_limbo and any(_peers_lacking(situation, answer)):
            others = [address for each, address in staying.items() if each != name]
            yield f"{name} is in limbo. Change its file, and restart it:"
            yield f"{name}: {peer_line(others)}"


def _stopped(situation: Situation) -> Step:
    change, found = situation.change, situation.leaving
    if found is None:
        return Step(f"{change.old} has stopped", "")
    where = f"{change.old} at {found[0].address}"
    line = f"Stop {where} for good. Keep its disk until the last step is done."
    if change.keeps_name:
        line = f"Stop {where}. Take its data directory along, if that is whole."
    return Step(f"{change.old} has stopped", f"{where} to stop", (line,))


def _peers(situation: Situation) -> Step:
    """Return the step after which the stores that stay have each other as peers, and no other."""
    staying = situation.staying
    lines: list[str] = []
    missing = [f"{name} to answer" for name in staying if name not in situation.at]
    for name, (_, answer) in situation.at.items():
        if name not in staying:
            continue
        wrong = [*_peers_lacking(situation, answer), *_peers_over(situation, answer)]
        if wrong:
            others = [address for each, address in staying.items() if each != name]
            missing.append(f"{name} {' and '.join(wrong)}")
            lines.append(f"{name}: {peer_line(others)}")
    if lines:
        lines.insert(0, "Change the files of these stores:")
        lines.append(
            "Then restart them, one after the other. Before each: `quorate status --wait 300 "
            "--without STORE`."
        )
    return Step("The stores have each other as peers", "; ".join(missing), tuple(lines))


def _peers_lacking(situation: Situation, answer: StatusResponse) -> Iterator[str]:
    """Yield the store that comes, if a store does not have it as a peer."""
    new = situation.change.new
    if new is None or answer.store_name == new.name:
        return
    reached = {peer.store_name for peer in answer.peers if _is_reached(situation, peer)}
    if new.name not in reached and place_of(new.address) not in map(_place, answer.peers):
        yield f"to name {new.name}"


def _peers_over(situation: Situation, answer: StatusResponse) -> Iterator[str]:
    """Yield the peers of a store that are the store that leaves, or its former address.

    A peer that answers under another name is a store that the command was not told of. A peer
    that the store has not heard since its start has no name.
    """
    change = situation.change
    places = set(map(place_of, situation.staying.values()))
    for peer in answer.peers:
        if not change.old or peer.store_name not in ("", change.old):
            continue
        is_old = peer.store_name == change.old and not change.keeps_name
        if is_old or not (_is_reached(situation, peer) or _place(peer) in places):
            yield f"to forget {peer.store_name or 'the peer'} at {peer.address}"


def _is_reached(situation: Situation, peer: PeerStatus) -> bool:
    """Return whether a peer answers, if it is the one that comes: since that store runs."""
    new, coming = situation.change.new, situation.coming
    if coming is None or new is None or peer.store_name != new.name:
        return peer.reachable
    return peer.reachable and peer.heard_seconds_ago <= coming.uptime_seconds


def _place(peer: PeerStatus) -> str:
    return place_of(peer.address)
