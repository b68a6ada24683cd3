"""The hazards of the field and the rules of protocol.md 4, each with the guards that hold them.

A guard is taken out in worlds, and is missed there. A test of a rule beside it fails without that
rule. Here is only which guards and tests there are, and that each of them exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.simulation import test_mutations, test_mutations_of_identities
from tests.test_documents import functions
from tests.world import guards as guards_of_worlds


@dataclass(frozen=True)
class Held:
    """The guards and the tests that stand against a hazard."""

    guards: tuple[str, ...]
    """Worlds miss these: a test has only what somebody has thought of."""
    tests: tuple[str, ...] = ()


RULES = {
    "the lineage travels with begin": Held(
        ("begun_epochs_add_up",),
        ("test_an_epoch_that_the_lineage_leaves_out_is_void",),
    ),
    "only stores that have begun count": Held(
        ("stores_count_before_they_begin", "whoever_begins_is_a_holder"),
        ("test_what_stores_hold_counts_once_they_have_begun",),
    ),
    "begin is durable on the old stores too": Held(
        ("only_the_new_stores_count", "predecessors_are_not_named"),
    ),
    "both hold until what was kept is stable under the new ones": Held(
        ("new_stores_are_believed_at_once",),
        ("test_what_only_the_old_stores_know_was_let_go_is_to_be_known_to_the_new_ones",),
    ),
    "the promise, the floor, the blocking set": Held(
        ("promise_is_not_durable", "no_floor", "no_blocking_set"),
    ),
    "an end leaves nothing behind": Held(
        (
            "rows_outlive_their_stream",
            "positions_outlive_their_receiver",
            "a place may be void",
        ),
    ),
}
HAZARDS = {
    "two sources with one identity": Held(
        ("promise_leaves_the_stream", "same_promise_to_anyone"),
        (
            "test_one_lives_on_and_it_is_not_the_one_that_was_replaced",
            "test_stores_are_told_what_was_decided_last_by_one_that_was_open",
        ),
    ),
    "fencing that recovery reads go around": Held(
        ("begin_below_the_promise",),
        ("test_a_promise_given_back_is_forgotten_where_nothing_else_was_known",),
    ),
    "divergent tails at restart": Held(
        ("nothing_is_set_aside", "set_aside_counts_as_held"),
        ("test_any_policies_epochs_and_holdings",),
    ),
    "groups with `any` whose quorums do not meet": Held(("a_stable_set_is_enough",)),
    "`all-active` shrinking": Held(("active_stores_are_enough",)),
    'a wiped or rolled-back store counted as "no"': Held(
        (
            "limbo_is_a_no",
            "limbo_ends_at_what_is_known_stable",
            "copies_are_not_told",
            "greetings_hide_what_was_known",
            "stores_serve_before_they_ask",
            "reboots_go_unnoticed",
        ),
        (
            "test_what_a_wiped_store_had_makes_nothing_stable",
            "test_a_wiped_store_does_not_go_on_by_what_one_that_lags_says",
            "test_two_wiped_stores_of_three_begin_no_stream_anew",
            "test_begin_without_a_promise_is_refused",
            "test_one_that_took_over_a_part_of_what_a_group_had_founds_none",
            "test_what_it_took_before_it_keeps_says_and_takes_no_more",
            "test_no_recovery_misses_what_was_stable_with_what_it_had_once",
        ),
    ),
    "corruption read as absence": Held(
        ("unreadable_is_absent", "unknown_is_a_no"),
        (
            "test_messages_that_cannot_be_read_are_not_given_away",
            "test_a_store_that_cannot_read_what_it_had_says_nothing_of_what_it_does_not_name",
            "test_one_that_a_backup_stands_in_for_adopts_a_begin_while_it_can_not_read_something",
        ),
    ),
    "a hung store": Held(
        ("hung_stores_are_waited_for",), ("test_a_hung_store_keeps_no_source_from_opening",)
    ),
    "a receiver that acted on what was never stable": Held(
        ("nothing_is_held_back", "unstable_is_acknowledged"),
        (
            "test_stable_is_what_is_stable_in_the_epoch_that_the_live_stream_is_in",
            "test_a_void_batch_is_not_used",
        ),
    ),
    "gaps in the middle": Held(
        (
            "gaps_are_taken",
            "one_no_is_a_gap",
            "not_yet_is_a_no",
            "unstable_is_forgotten",
            "skips_of_unstable_are_taken",
        ),
    ),
    "copies that nobody makes up for": Held(
        ("nobody_repairs",),
        ("test_the_scrub_finds_rot_and_it_is_repaired", "test_digests_differ_only_where_rows_do"),
    ),
    "repair racing an open tail": Held(
        ("repair_follows_the_open_tail", "one_copy_is_enough_for_a_proxy"),
        ("test_a_copy_that_was_lost_before_the_other_was_made_does_not_count",),
    ),
    "receiver positions that disagree": Held(
        (
            "positions_are_made_up",
            "what_is_under_way_is_acknowledged",
            "fenced_receivers_are_heard",
        ),
        (
            "test_consuming_what_was_withdrawn_counts_for_nothing",
            "test_the_end_of_a_receiver_reaches_a_store_that_was_away",
            "test_a_frozen_receiver_that_ended_moves_nothing_when_it_wakes",
        ),
    ),
    "a retried publish": Held(("retries_get_new_numbers",)),
    "deletion by absence": Held(
        (
            "what_a_peer_lacks_is_deleted",
            "ends_do_not_win",
            "signs_of_life_do_not_count",
            "older_generations_count",
            "what_was_let_go_is_missed",
            "what_is_unstable_is_let_go",
        ),
        (
            "test_what_an_end_voids_stays_until_enough_peers_have_begun_that_end",
            "test_a_source_begins_anew_where_one_store_has_not_heard_of_its_end",
            "test_a_store_that_hears_nobody_ends_no_source",
            "test_only_who_was_promised_the_epoch_ends_a_source",
        ),
    ),
    "a failed fsync": Held(
        ("failed_syncs_are_tried_again", "acknowledged_before_the_sync"),
        ("test_a_promise_is_answered_when_it_is_durable",),
    ),
    "late control messages of an old epoch": Held(
        ("stores_take_any_epoch",),
        ("test_fenced_while_promising_goes_above_what_was_heard",),
    ),
    "process pauses and clock jumps": Held(
        ("promise_leaves_the_stream", "the_clock_decides_alone")
    ),
    "membership change": Held(("only_the_new_stores_count", "new_stores_are_believed_at_once")),
    "a store that lags and never catches up": Held(("repair_waits_for_a_pause", "nobody_repairs")),
}
EVERYTHING = {**RULES, **HAZARDS}
MISSED_IN_WORLDS = {
    str(each)
    for each in (
        *guards_of_worlds.MUTATIONS,
        *test_mutations.MUTATIONS,
        *test_mutations_of_identities.MUTATIONS,
    )
}


@pytest.mark.parametrize("what", EVERYTHING)
def test_worlds_miss_each_guard(what: str) -> None:
    assert EVERYTHING[what].guards
    assert set(EVERYTHING[what].guards) - MISSED_IN_WORLDS == set()


def test_each_guard_that_worlds_miss_is_named() -> None:
    """Else nobody would miss its mutation."""
    named = {guard for held in EVERYTHING.values() for guard in held.guards}
    assert MISSED_IN_WORLDS - named == set()


def test_each_test_that_is_named_exists() -> None:
    named = {test for held in EVERYTHING.values() for test in held.tests}
    assert named - functions(Path(__file__).parents[1].rglob("test_*.py")) == set()
