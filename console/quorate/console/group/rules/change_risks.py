"""The changes of the stores that are refused, and the risks of the others.

Pure. The steps themselves are in quorate.console.group.rules.change_steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from quorate.console.group.rules.agreement import same_store_twice, settings_differ, versions_differ
from quorate.console.group.rules.change_situation import Situation, named
from quorate.console.group.rules.change_steps import steps
from quorate.console.group.rules.source_status import SourceView
from quorate.console.group.rules.store_change import names_of
from quorate.console.group.rules.store_findings import cause_of, troubles
from quorate.protocol.addresses import place_of
from quorate.protocol.errors import InvalidArgument, QuorateError
from quorate.protocol.identity import StoreAddress
from quorate.protocol.policy import IntragroupRule
from quorate.v1.store_pb2 import StatusResponse

# Refusals, before anything is changed.


def check(situation: Situation) -> None:
    """Raise InvalidArgument if the change makes no sense for the group as it is."""
    change = situation.change
    _check_names(situation)
    if change.new is not None:
        _check_new(situation, change.new)
    for view in situation.unmoved:
        _check_stable(situation, view)
    if all(step.done for step in steps(situation)):
        raise InvalidArgument("store", _nothing_left(situation))


def _check_names(situation: Situation) -> None:
    change, known = situation.change, set(situation.at)
    for view in situation.views:
        known |= view.members.own_names
        for policy, _ in view.members.policies:
            known |= policy.backups
    known |= set(map(situation.own_name, situation.answers))
    if change.new is not None and not change.keeps_name:
        known.discard(change.new.name)
    if change.old and change.old not in known:
        raise InvalidArgument(
            "store", f"no store is called {change.old}; known are {', '.join(sorted(known))}"
        )
    if change.new is None and known == {change.old}:
        raise InvalidArgument("store", f"{change.old} is the last store")


def _check_new(situation: Situation, new: StoreAddress) -> None:
    change, ours = situation.change, situation.staying
    there = {store.address: answer for store, answer in situation.answers.items()}[new.address]
    for name, (store, _) in situation.at.items():
        if name == new.name and store.address != new.address and not change.keeps_name:
            raise InvalidArgument(
                "store",
                f"a store called {name} serves {store.address}; give the new one another name, or "
                f"use `quorate store replace {name} {name}={new.address}`",
            )
    if not isinstance(there, StatusResponse):
        return
    if there.store_name != new.name:
        raise InvalidArgument(
            "store",
            f"the store at {new.address} calls itself {there.store_name}, not {new.name}; name it "
            "as its own configuration does",
        )
    names = {name for name in ours if name != new.name}
    places = {place_of(ours[name]) for name in names}
    is_ours = any(
        peer.store_name in names or place_of(peer.address) in places for peer in there.peers
    )
    if names and not there.limbo and not is_ours:
        raise InvalidArgument(
            "store",
            f"{new.name} at {new.address} belongs to another group. It is out of limbo, and none "
            f"of {', '.join(sorted(names))} is its peer. Start it on a blank directory with these "
            "as its peers",
        )


def _check_stable(situation: Situation, view: SourceView) -> None:
    """Raise InvalidArgument if the stores that are able are no stable set of a needed policy."""
    change, able = situation.change, situation.able(view)
    if change.new is not None:
        able = able | {change.new.name}
    called = view.members.called
    for policy, target in situation.targets(view):
        for each in (target, policy):
            holding = {name for name in each.stores if called.get(name, name) in able}
            if each is target and change.new is None:
                holding -= names_of(view, each, change.old)
            if not each.stable(holding):
                raise InvalidArgument(
                    "store",
                    f"{view.name} could not go from {policy} to {target}: of the stores that it "
                    f"then needs only {', '.join(sorted(holding)) or 'none'} can take part now; "
                    "start the others first",
                )


def _nothing_left(situation: Situation) -> str:
    change, count = situation.change, len(situation.placed)
    if not change.old and change.new is not None:
        return (
            f"{change.new.name} is in already: it lacks nothing, and {count} of {count} sources "
            "name it in their policies"
        )
    if change.keeps_name:
        return (
            f"{change.old} runs and lacks nothing. To replace its disk, see whether the group can "
            f"do without it (`quorate status --without {change.old}`), stop it, and run this again"
        )
    return (
        f"{change.old} has left already: no policy in force names it, and no store has it as peer"
    )


# Risks.


def risks(situation: Situation) -> list[str]:
    """Return what could go wrong, or has to be known, before anything is changed."""
    change = situation.change
    new = change.new_address
    found = [
        f"Store {store.name} at {store.address} does not answer: {cause_of(answer)}. Start it "
        "first, if it is not gone for good."
        for store, answer in situation.answers.items()
        if isinstance(answer, QuorateError)
        and change.old != situation.own_name(store)
        and store.address != new
    ]
    answers = [answer for _, answer in situation.at.values()]
    for answer in answers:
        if answer.store_name not in (change.old, change.new and change.new.name):
            found += [each.what for each in troubles(answer)]
    for each in (*same_store_twice(answers), *settings_differ(answers), *versions_differ(answers)):
        found.append(each.what)
    for view in situation.placed:
        found += [each.what for each in view.findings(lag_max=100_000)]
    found += _risks_of_policies(situation)
    found += _risks_of_disks(situation)
    return list(dict.fromkeys(found))


def _risks_of_policies(situation: Situation) -> Iterator[str]:
    unmoved = situation.unmoved
    if away := [view for view in unmoved if not view.is_live]:
        yield (
            f"{named(away)} {_do(away)} not run, and a policy changes only while its source runs. "
            "Run each of them once with the new lines, let --move-away do it, or deregister it."
        )
    if any(view.is_live for view in unmoved):
        yield (
            "Each source that runs has to be opened again with the new lines. Its messages wait "
            "while the stores change, and its receivers go on."
        )
    if situation.change.keeps_name:
        yield from _risks_of_limbo(situation)
    for target in {target for view in unmoved for _, target in situation.targets(view)}:
        for group in target.groups:
            size = len(group.stores)
            if IntragroupRule(group.rule) is IntragroupRule.ALL:
                yield (
                    f"Group {group.name} has the rule `all`: sending stops whenever one of its "
                    f"{size} stores is away."
                )
            elif size % 2 == 0 and not situation.change.keeps_name:
                yield (
                    f"Group {group.name} then has {size} stores. It survives the loss of no more "
                    f"stores than with {size - 1}."
                )


def _risks_of_limbo(situation: Situation) -> Iterator[str]:
    """Yield the policies whose other stores cannot tell a blank store what it lacks."""
    old = situation.change.old
    for view in situation.placed:
        able, called = situation.able(view) - {old}, view.members.called
        for policy, _ in view.members.policies:
            sure = {name for name in policy.stores if called.get(name, name) in able}
            if names_of(view, policy, old) and not (policy.stable(sure) and policy.blocks(sure)):
                yield (
                    f"If the disk is lost, {old} stays in limbo for {view.name}: the other stores "
                    f"that answer are not enough without it by {policy}. Then `quorate store "
                    f"readmit {old}` lets it go on with what they have."
                )


def _risks_of_disks(situation: Situation) -> Iterator[str]:
    change = situation.change
    leaving, coming = situation.leaving, situation.coming
    if leaving is not None and not change.keeps_name and (aside := _set_aside(leaving[1])):
        yield (
            f"Store {change.old} has set {aside:,} messages aside, which no other store has. "
            "`quorate store aside` shows them once it is stopped."
        )
    if coming is None:
        return
    largest = max(answer.disk_bytes for _, answer in situation.at.values())
    if coming.disk_free_bytes + coming.disk_bytes < largest + coming.disk_free_warning_bytes:
        yield (
            f"The disk of {coming.store_name} has {coming.disk_free_bytes:,} bytes left, and "
            f"another store takes {largest:,}."
        )


def _set_aside(answer: StatusResponse) -> int:
    return sum(source.set_aside for source in answer.sources)


def _do(views: Sequence[SourceView]) -> str:
    return "does" if len(views) == 1 else "do"
