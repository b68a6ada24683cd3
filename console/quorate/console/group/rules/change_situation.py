"""The situation of a group that is to have other stores: which of them answer, and their names.

Pure, and derived from the answers of the stores alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from quorate.console.group.rules.source_status import Answers, SourceView, views_of
from quorate.console.group.rules.store_change import (
    StoreChange,
    has_moved,
    names_of,
    policy_has_moved,
)
from quorate.protocol.identity import StoreAddress
from quorate.protocol.policy import Policy
from quorate.v1.messages_pb2 import DURABILITY_STATE_ONLY
from quorate.v1.store_pb2 import StatusResponse

NAMED_MAX = 10
"""The most sources that a line names."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A group at one moment, seen for one change of its stores."""

    change: StoreChange
    answers: Answers
    views: list[SourceView] = field(init=False)
    at: Mapping[str, tuple[StoreAddress, StatusResponse]] = field(init=False)
    """The stores that answered, by their own names."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "views", views_of(self.answers))
        answered = {
            answer.store_name: (store, answer)
            for store, answer in self.answers.items()
            if isinstance(answer, StatusResponse)
        }
        object.__setattr__(self, "at", answered)

    @property
    def placed(self) -> list[SourceView]:
        """The sources of which a policy is in force."""
        return [view for view in self.views if view.members.policies]

    @property
    def unmoved(self) -> list[SourceView]:
        """The sources of which a policy before the change is in force."""
        return [view for view in self.placed if not has_moved(view, self.change)]

    @property
    def coming(self) -> StatusResponse | None:
        """The answer of the store that comes, under its name and at its address."""
        new = self.change.new
        for store, answer in self.answers.items():
            if new is None or not isinstance(answer, StatusResponse):
                continue
            if (answer.store_name, store.address) == (new.name, new.address):
                return answer
        return None

    @property
    def leaving(self) -> tuple[StoreAddress, StatusResponse] | None:
        """The answer of the store that leaves, with its address there; None: it does not run.

        A store that is reached at two addresses does not leave.
        """
        coming = self.coming
        for store, answer in self.answers.items():
            if isinstance(answer, StatusResponse) and answer.store_name == self.change.old:
                if not self.change.keeps_name:
                    return store, answer
                if store.address != self.change.new_address and (
                    coming is None or coming.incarnation != answer.incarnation
                ):
                    return store, answer
        return None

    @property
    def staying(self) -> dict[str, str]:
        """The addresses of the stores that stay, the coming one among them, by name."""
        change = self.change
        found: dict[str, str] = {}
        for store in self.answers:
            found.setdefault(self.own_name(store), store.address)
        found.pop(change.old, None)
        if change.new is not None:
            found[change.new.name] = change.new.address
        return found

    def own_name(self, store: StoreAddress) -> str:
        """Return the name that a store has in its own configuration, as far as it is known."""
        answer = self.answers[store]
        if isinstance(answer, StatusResponse):
            return answer.store_name
        for view in self.views:
            for entry in view.newest.information.stores:
                if entry.address == store.address and entry.store_name:
                    return entry.store_name
        return store.name

    def able(self, view: SourceView) -> set[str]:
        """Return the stores, by their own names, that can take part in a begin of a source."""
        return {
            name
            for name, (_, answer) in self.at.items()
            if not answer.limbo
            and name not in view.state_only
            and answer.durability != DURABILITY_STATE_ONLY
            and not (name in view.at and view.at[name].limbo)
        }

    def addresses(self, view: SourceView) -> dict[str, str]:
        """Return the addresses of the stores of a source, by their names in its policies."""
        stores = (*view.newest.begun.membership.stores, *view.newest.information.stores)
        known = {each.name: each.address for each in stores}
        if self.change.new is not None:
            known[self.change.new.name] = self.change.new.address
        return known

    def move_of(self, view: SourceView) -> tuple[Policy, Policy]:
        """Return the policy that a source leaves, and the one that it goes to.

        Of a source in the middle of the change, both are in force. Raises InvalidArgument.
        """
        change, policies = self.change, [policy for policy, _ in view.members.policies]
        former = [
            policy
            for policy in policies
            if change.new is None or not names_of(view, policy, change.new.name)
            if not change.old or names_of(view, policy, change.old)
        ]
        before = former[0] if former else policies[0]
        return before, change.target(before, names_of(view, before, change.old))

    def targets(self, view: SourceView) -> list[tuple[Policy, Policy]]:
        """Return each policy in force of a source, with the one that it goes to.

        Of a source in the middle of the change, one of them is that one already. Raises
        InvalidArgument.
        """
        change = self.change
        return [
            (
                policy,
                policy
                if policy_has_moved(view, policy, change)
                else change.target(policy, names_of(view, policy, change.old)),
            )
            for policy, _ in view.members.policies
        ]


def named(views: Collection[SourceView]) -> str:
    """Return the names of sources as text, and how many more there are."""
    names = [str(view.name) for view in views]
    more = len(names) - NAMED_MAX
    return ", ".join(names[:NAMED_MAX]) + (f" and {more:,} more" if more > 0 else "")
