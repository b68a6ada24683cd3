"""The part of an archive that a subscription is given: where it begins, what fills a gap. Pure.

An archive has one stream of each source. The stores may have begun that source anew since. Epochs
tell the streams apart: those of the newer stream are higher.
"""

from __future__ import annotations

from collections.abc import Mapping

from quorate.archive.rules.source import ArchivedSource
from quorate.protocol.bookmarks import NO_PLACE, Bookmark, Place, Position, kept_upto, place_at
from quorate.protocol.identity import SourceName
from quorate.protocol.ranges import Range


def behind(archived: ArchivedSource, place: Place | None) -> Range | None:
    """Return the numbers to read from the archive; None: the stores have what follows.

    place: the subscription's place in the source's stream; None: its position does not name it.
    """
    if place is None:
        # A source that a position does not name is given from its first message that is left.
        first = archived.first
    elif place.belongs_to(archived.lineage):
        first = place.sequence + 1
    elif _ended_before(archived, place):
        first = 0
    else:
        return None
    return Range(first, archived.last) if first <= archived.last else None


def _ended_before(archived: ArchivedSource, place: Place) -> bool:
    """Return whether a place is in a stream that ended before the archived one began."""
    # A lineage that does not begin with number 0 lacks its oldest epochs. Then nothing is certain.
    terms = archived.lineage.terms
    return place == NO_PLACE or (terms[0].first == 0 and place.epoch < terms[0].epoch)


def upto(archived: ArchivedSource, end: Place) -> int:
    """Return the last archived number that is not behind the end of a subscription.

    end: the place of the source where the subscription ends.
    """
    if end.epoch > archived.lineage.epoch:
        return archived.last  # the end came after all that is archived
    return min(archived.last, kept_upto(end, archived.lineage))


def fills(archived: ArchivedSource, place: Place, gap: Range) -> Range | None:
    """Return the part of a gap of the stores that the archive may have; None: no part.

    place: the subscription's place in the source's stream, right before the gap.
    """
    # Where a source began anew, the gap does not follow on the place.
    if place.sequence != gap.first - 1 or gap.first > archived.last:
        return None
    if place != NO_PLACE and not place.belongs_to(archived.lineage):
        terms = archived.lineage.terms
        if place.sequence >= terms[0].first or place.epoch >= terms[0].epoch:
            return None
    return Range(gap.first, min(gap.last, archived.last))


def contradicts(archived: ArchivedSource, place: Place, void_first: int) -> bool:
    """Return whether a store takes back what the archive has as stable.

    - place: the subscription's place before it goes back.
    - void_first: the first number that the store takes back.
    """
    return void_first <= archived.last and place.epoch <= archived.lineage.epoch


def since(archived: ArchivedSource, at_stores: Place | None, first: int | None) -> Place:
    """Return the place of a source before a time.

    - at_stores: its place by the stores; None: they do not know the source.
    - first: the first archived number of that time or later; None: there is none.
    """
    if first is not None:
        return place_at(archived.lineage, first - 1)
    if at_stores is not None and (
        at_stores.epoch > archived.lineage.epoch or at_stores.sequence > archived.last
    ):
        return at_stores
    return place_at(archived.lineage, archived.last)


def decisive(numbers: Mapping[Bookmark, int], position: Position) -> Bookmark | None:
    """Return the bookmark at which a store begins or ends; None: it does not say.

    - numbers: the last number before the cut that each bookmark stands for.
    - position: the position that the store made of the bookmarks.
    """
    exact = (
        bookmark
        for bookmark, number in numbers.items()
        if position.get(bookmark.source, NO_PLACE).sequence == number
    )
    return next(exact, None)


def unplaced(
    sources: Mapping[SourceName, ArchivedSource], position: Position
) -> dict[SourceName, ArchivedSource]:
    """Return the archived sources of which a store holds nothing before a bookmark.

    The store may have let their messages go, so its journal does not say where they are.
    """
    return {
        name: source for name, source in sources.items() if position.get(name, NO_PLACE) == NO_PLACE
    }
