"""What a source makes of stores that keep its registration, but none of its messages (DESIGN 4.5).

They promise and begin, and count for that. They are sent no messages, acknowledge none, and never
count as holders; so what is stable is up to the others alone, and a policy that the others can not
meet is found out as soon as it is known who they are. Pure.
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
    """Why no message will become stable, if that is certain by these promises.

    own: the policy that the source wants; previous: those in force while nothing was begun.
    Who has not answered may take messages.
    """
    membership = newest_begun(promises.values()).membership
    in_force = membership.policies if membership is not None else tuple(previous)
    state_only = {store for store, promise in promises.items() if not promise.takes_data}
    for policy in (own, *in_force):
        if not can_be_stable(policy, state_only):
            members = sorted(state_only & policy.stores)
            return NeverStable(str(name), str(policy), ", ".join(members))
    return None


def can_be_stable(policy: Policy, state_only: Set[str]) -> bool:
    """Whether the stores that take messages make one stable while all of them are active.

    Of all-active rules that is not the least they ask for: an active group with the rule `all` may
    have a member that never holds anything.
    """
    takers = policy.stores - state_only
    return policy.stable(takers, takers)


def who_takes(streams: Streams) -> str:
    """Which stores take messages now, and which never will; for people."""
    taking = ", ".join(sorted(streams.open_stores())) or "none"
    keeping = ", ".join(sorted(streams.state_only()))
    return f"stores that take it: {taking}" + (f"; {keeping} keep no messages" if keeping else "")
