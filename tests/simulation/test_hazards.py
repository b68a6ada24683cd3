"""Which guards stand against which hazard, and for which rule of protocol.md 4.

Each is taken out in a mutation or a script, and is missed; here is only which there are.
"""

from __future__ import annotations

import pytest
from tests.simulation import (
    test_guards,
    test_mutations,
    test_mutations_of_identities,
    test_receiver_ends,
    test_upkeep,
)

RULES = {
    "the lineage travels with begin": ("begun_epochs_add_up", "lineages_are_lists_of_begins"),
    "only stores that have begun count": (
        "stores_count_before_they_begin",
        "whoever_begins_is_a_holder",
    ),
    "begin is durable on the old stores too": (
        "only_the_new_stores_count",
        "predecessors_are_not_named",
    ),
    "both hold until what was kept is stable under the new ones": (
        "new_stores_are_believed_at_once",
        "what_was_let_go_is_not_brought_up",
    ),
    "the promise, the floor, the blocking set": (
        "promise_is_not_durable",
        "no_floor",
        "no_blocking_set",
    ),
}
HAZARDS = {
    "two sources with one identity": (
        "promise_leaves_the_stream",
        "same_promise_to_anyone",
        "replaced_ones_come_back",
    ),
    "fencing that recovery reads go around": (
        "begin_below_the_promise",
        "others_promises_are_taken_back_too",
    ),
    "divergent tails at restart": (
        "nothing_is_set_aside",
        "set_aside_counts_as_held",
        "void_batches_are_kept",
    ),
    "groups with `any` whose quorums do not meet": ("a_stable_set_is_enough",),
    "`all-active` shrinking": ("active_stores_are_enough",),
    'a wiped or rolled-back store counted as "no"': (
        "limbo_is_a_no",
        "limbo_ends_by_anyone",
        "limbo_ends_at_what_is_known_stable",
        "copies_are_not_told",
        "greetings_hide_what_was_known",
        "stores_serve_before_they_ask",
        "reboots_go_unnoticed",
        "replaced_stores_go_unnoticed",
        "begins_of_forgotten_promises",
        "wiped_stores_found",
        "filled_stores_found",
        "says_that_it_holds_nothing",
        "fetches_nothing_to_leave_limbo",
    ),
    "corruption read as absence": (
        "unreadable_is_a_no",
        "unreadable_is_absent",
        "who_can_not_read_says_no",
        "who_stood_back_learns_nothing",
        "unknown_is_a_no",
    ),
    "a hung store": ("hung_stores_are_waited_for",),
    "a receiver that acted on what was never stable": (
        "nothing_is_held_back",
        "unstable_is_acknowledged",
        "stable_of_any_epoch",
        "receivers_take_void_batches",
    ),
    "gaps in the middle": (
        "gaps_are_taken",
        "one_no_is_a_gap",
        "not_yet_is_a_no",
        "unstable_is_forgotten",
        "skips_of_unstable_are_taken",
    ),
    "copies that nobody makes up for": ("nobody_repairs", "nobody_scrubs", "digests_always_agree"),
    "repair racing an open tail": (
        "repair_follows_the_open_tail",
        "one_copy_is_enough_for_a_proxy",
        "one_look_is_enough_for_a_proxy",
    ),
    "receiver positions that disagree": (
        "positions_are_made_up",
        "what_is_under_way_is_acknowledged",
        "fenced_receivers_are_heard",
        "withdrawn_stays_consumed",
        "ends_leave_no_mark",
    ),
    "a retried publish": ("retries_get_new_numbers",),
    "deletion by absence": (
        "what_a_peer_lacks_is_deleted",
        "every_end_is_durable",
        "ends_do_not_win",
        "nobody_is_asked_before_a_source_expires",
        "signs_of_life_do_not_count",
        "who_was_fenced_may_end_it",
        "older_generations_count",
        "what_was_let_go_is_missed",
        "what_is_unstable_is_let_go",
    ),
    "a failed fsync": (
        "failed_syncs_are_tried_again",
        "acknowledged_before_the_sync",
        "answers_before_the_commit",
    ),
    "late control messages of an old epoch": ("old_answers_count", "stores_take_any_epoch"),
    "process pauses and clock jumps": ("promise_leaves_the_stream", "the_clock_decides_alone"),
    "membership change": (
        "only_the_new_stores_count",
        "new_stores_are_believed_at_once",
    ),
    "a store that lags and never catches up": (
        "repair_waits_for_a_pause",
        "nobody_repairs",
    ),
}


EVERYTHING = {**RULES, **HAZARDS}
NAMED = {guard for guards in EVERYTHING.values() for guard in guards}
FOUND_BY_CHANCE = {
    str(each)
    for each in (
        *test_mutations.MUTATIONS,
        *test_mutations_of_identities.MUTATIONS,
        *test_receiver_ends.MUTATIONS,
        *test_upkeep.MUTATIONS,
    )
}
"""Those that random worlds miss: a script has only what somebody has thought of."""
TAKEN_OUT = FOUND_BY_CHANCE | {str(each) for each in test_guards.GUARDS}


def test_every_guard_that_is_named_is_taken_out_somewhere() -> None:
    assert NAMED <= TAKEN_OUT


def test_every_guard_that_worlds_miss_is_named() -> None:
    """Else nobody would miss its mutation."""
    assert FOUND_BY_CHANCE <= NAMED


@pytest.mark.parametrize("what", EVERYTHING)
def test_worlds_miss_a_guard_of_each(what: str) -> None:
    """Not a script alone."""
    assert FOUND_BY_CHANCE.intersection(EVERYTHING[what])
