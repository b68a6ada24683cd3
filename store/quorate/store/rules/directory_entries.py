"""The entries of a store's directory of sources, merged from the claims of all stores.

Pure functions and values. The newest information wins, by (epoch, version). A source is live if it
streams to any store in that epoch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass

from quorate.protocol.identity import SourceName
from quorate.store.rules.peer_knowledge import PeerAnswer
from quorate.store.rules.source_state import SourceState
from quorate.store.rules.store_names import policy_name
from quorate.v1.messages_pb2 import SourceInformation
from quorate.v1.store_pb2 import DirectoryEntry


@dataclass(frozen=True, slots=True)
class Claim:
    """The knowledge of one store about a source, as it enters the directory."""

    address: str
    """The address of that store."""
    information: SourceInformation
    live: bool
    proxy: bool
    """Whether that store announces the source, which is away, as its proxy."""
    finished: bool = False
    """Whether the source is finished at that store."""

    @property
    def order(self) -> tuple[int, int]:
        """The age of the information: the higher of two claims is the newer one."""
        return self.information.epoch, self.information.version


def claim_of(state: SourceState, address: str, *, proxy: bool, finished: bool) -> Claim | None:
    """Return this store's own claim; None if the source has not described itself here yet."""
    information = state.registration.information
    if information is None:
        return None
    return Claim(address, information, state.live, proxy, finished)


def merged(claims: Mapping[str, Claim], me: str) -> DirectoryEntry | None:
    """Return the entry that a store tells its watchers; None without claims.

    claims: by store. me: the name of this store.
    """
    if not claims:
        return None
    newest = _newest(claims)
    live = any(claim.live for claim in _of_epoch(claims, newest.epoch).values())
    return DirectoryEntry(information=newest, live=live, proxy=proxy_among(claims, me))


def proxy_among(claims: Mapping[str, Claim], me: str) -> str:
    """Return the proxy that a store names to its watchers; empty: none, or the source is live.

    A store that knows the source speaks for itself alone. Any other store passes on the first
    announcement by name.
    """
    if not any(claim.proxy for claim in claims.values()):
        return ""
    newest = _newest(claims)
    now = _of_epoch(claims, newest.epoch)
    if any(claim.live for claim in now.values()):
        return ""
    heard = [me] if me in now else sorted(now)
    named = (policy_name(store, now[store].address, newest) for store in heard if now[store].proxy)
    return next(named, "")


def _newest(claims: Mapping[str, Claim]) -> SourceInformation:
    return max(claims.values(), key=lambda claim: claim.order).information


def _of_epoch(claims: Mapping[str, Claim], epoch: int) -> dict[str, Claim]:
    return {store: claim for store, claim in claims.items() if claim.order[0] == epoch}


class Elsewhere:
    """The claims of the peers that can be heard."""

    def __init__(self) -> None:
        self._claims: dict[SourceName, dict[str, Claim]] = {}

    @property
    def sources(self) -> Set[SourceName]:
        return self._claims.keys()

    def of(self, source: SourceName) -> Mapping[str, Claim]:
        """Return the claims about a source, by store."""
        return self._claims.get(source, {})

    def hear(
        self, answers: Collection[PeerAnswer], sources: Iterable[SourceName]
    ) -> list[SourceName]:
        """Replace the claims about these sources by those of the peers that can be heard.

        answers: the latest one of each such peer. Return the sources whose claims have changed.
        """
        changed = list[SourceName]()
        for source in sources:
            claims = {
                answer.store: claim
                for answer in answers
                if (claim := _claim_of_peer(answer, source)) is not None
            }
            if claims != self.of(source):
                changed.append(source)
            if claims:
                self._claims[source] = claims
            else:
                self._claims.pop(source, None)
        return changed


def _claim_of_peer(answer: PeerAnswer, source: SourceName) -> Claim | None:
    known = answer.knowledge(source)
    if known.information is None or known.begun.ended:
        return None
    return Claim(answer.address, known.information, known.live, known.proxy, known.finished)
