"""The role of stores that keep a source's registration, but no messages (protocol.md 3.4).

Pure. State-only stores promise and begin, and count for both. They are sent no messages,
acknowledge none, and never count as holders. So the other stores alone make messages stable. A
policy that they cannot meet is found as soon as enough stores have promised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from quorate.protocol.errors import NeverStable
from quorate.protocol.identity import SourceName
from quorate.protocol.policy import Policy
from quorate.protocol.recovery import Promise, newest_begun
from quorate.source.protocol.store_cursors import Streams


def never_stable(
    name: SourceName, own: Policy, previous: Iterable[Policy], promises: Mapping[str, Promise]
) -> NeverStable | None:
    """Return why no message will ever become stable, if these promises prove it.

    own: the policy that the source wants; previous: the policies in force while nothing was begun.
    A store that has not answered may take messages.
    """
    membership = newest_begun(promises.values()).begun.membership
    in_force = membership.policies if membership is not None else tuple(previous)
    state_only = {store for store, promise in promises.items() if not promise.takes_data}
    for policy in (own, *in_force):
        if not can_be_stable(policy, state_only):
            members = sorted(state_only & policy.stores)
            return NeverStable(str(name), str(policy), ", ".join(members))
    return None


def can_be_stable(policy: Policy, state_only: Set[str]) -> bool:
    """Return whether the stores that take messages, all of them active, can make one stable.

    An all-active rule asks for more while more stores are active. Example: an active group with the
    rule `all` has a member that keeps no messages, so the group never holds one.
    """
    takers = policy.stores - state_only
    return policy.stable(takers, takers)


def who_takes(streams: Streams) -> str:
    """Return, for people, which stores take messages now and which keep none."""
    taking = ", ".join(sorted(streams.open_stores())) or "none"
    keeping = ", ".join(sorted(streams.state_only()))
    return f"stores that take it: {taking}" + (f"; {keeping} keep no messages" if keeping else "")
