"""The hazards of the field and the rules of protocol.md 4, each with the guards that hold them.

A guard is taken out in worlds, and is missed there. A test of a rule beside it fails without that
rule. Here is only which guards and tests there are, and that each of them exists.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.test_documents import functions
from tests.world import guards as guards_of_worlds


@dataclass(frozen=True)
class Held:
    """The guards and the tests that stand against a hazard."""

    guards: tuple[str, ...]
    """Worlds miss these: a test has only what somebody has thought of."""
    tests: tuple[str, ...] = ()
    """These fail without the rule that they are beside."""


RULES = {
    "the lineage travels with begin": Held(
        (), ("test_an_epoch_that_the_lineage_leaves_out_is_void",)
    ),
    "only stores that have begun count": Held(
        ("whoever_begins_is_a_holder",), ("test_what_stores_hold_counts_once_they_have_begun",)
    ),
    "begin is durable on the old stores too": Held(
        (),
        (
            "test_a_stream_moves_by_way_of_both_policies_and_the_record_then_forgets_the_old_one",
            "test_while_nothing_was_ever_begun_the_previous_policies_are_in_force",
        ),
    ),
    "both hold until what was kept is stable under the new ones": Held(
        (),
        (
            "test_what_only_the_old_stores_know_was_let_go_is_to_be_known_to_the_new_ones",
            "test_it_is_ready_once_enough_were_heard_and_nothing_is_lacking",
        ),
    ),
    "the promise, the floor, the blocking set": Held(
        (),
        (
            "test_a_promise_is_written_before_it_is_answered",
            "test_three_stores_with_holes_anywhere",
            "test_one_answer_of_three_decides_nothing_and_the_error_names_the_stores",
        ),
    ),
    "an end leaves nothing behind": Held(
        ("rows_outlive_their_stream", "positions_outlive_their_receiver", "void_places_count")
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
        (),
        (
            "test_a_promise_given_back_is_forgotten_where_nothing_else_was_known",
            "test_begin_of_a_fenced_epoch_is_refused",
        ),
    ),
    "divergent tails at restart": Held(
        ("nothing_is_set_aside",),
        (
            "test_any_policies_epochs_and_holdings",
            "test_begin_sets_aside_what_the_lineage_does_not_keep",
        ),
    ),
    "groups with `any` whose quorums do not meet": Held(
        (), ("test_a_stable_set_decides_nothing_where_stable_sets_do_not_meet",)
    ),
    "`all-active` shrinking": Held(("active_stores_are_enough",)),
    'a wiped or rolled-back store counted as "no"': Held(
        ("copies_are_not_told", "stores_serve_before_they_ask"),
        (
            "test_what_a_wiped_store_had_makes_nothing_stable",
            "test_a_wiped_store_does_not_go_on_by_what_one_that_lags_says",
            "test_two_wiped_stores_of_three_begin_no_stream_anew",
            "test_begin_without_a_promise_is_refused",
            "test_one_that_took_over_a_part_of_what_a_group_had_founds_none",
            "test_what_it_took_before_it_keeps_says_and_takes_no_more",
            "test_no_recovery_misses_what_was_stable_with_what_it_had_once",
            "test_a_store_in_limbo_is_asked_again_and_does_not_vouch",
            "test_what_began_after_an_end_counts_and_nothing_older",
            "test_a_directory_that_was_put_back_does_not_make_its_peers_forget",
            "test_only_what_was_not_synced_is_lost_with_the_host",
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
    "a hung store": Held((), ("test_a_hung_store_keeps_no_source_from_opening",)),
    "a receiver that acted on what was never stable": Held(
        ("nothing_is_held_back",),
        (
            "test_stable_is_what_is_stable_in_the_epoch_that_the_live_stream_is_in",
            "test_a_void_batch_is_not_used",
            "test_nothing_consumed_is_nothing_to_acknowledge",
        ),
    ),
    "gaps in the middle": Held(
        ("one_no_is_a_gap",),
        (
            "test_a_gap_is_refused_and_nothing_is_taken",
            "test_nothing_is_said_of_messages_that_may_come_yet",
            "test_stable_frames_go_when_no_store_needs_them",
            "test_only_what_is_stable_and_next_is_skipped",
        ),
    ),
    "copies that nobody makes up for": Held(
        (),
        (
            "test_the_scrub_finds_rot_and_it_is_repaired",
            "test_digests_differ_only_where_rows_do",
            "test_what_is_lacking_in_every_small_world",
        ),
    ),
    "repair racing an open tail": Held(
        ("repair_follows_the_open_tail",),
        (
            "test_a_copy_that_was_lost_before_the_other_was_made_does_not_count",
            "test_what_one_of_them_was_told_is_stable",
        ),
    ),
    "receiver positions that disagree": Held(
        ("positions_are_made_up",),
        (
            "test_consuming_what_was_withdrawn_counts_for_nothing",
            "test_the_end_of_a_receiver_reaches_a_store_that_was_away",
            "test_a_frozen_receiver_that_ended_moves_nothing_when_it_wakes",
            "test_asking_for_a_message_acknowledges_the_one_before",
            "test_a_higher_epoch_fences_the_lower",
        ),
    ),
    "a retried publish": Held((), ("test_what_no_store_kept_is_sent_again_in_the_new_epoch",)),
    "deletion by absence": Held(
        (
            "what_a_peer_lacks_is_deleted",
            "ends_do_not_win",
            "signs_of_life_do_not_count",
            "older_generations_count",
            "what_was_let_go_is_missed",
        ),
        (
            "test_what_an_end_voids_stays_until_enough_peers_have_begun_that_end",
            "test_a_source_begins_anew_where_one_store_has_not_heard_of_its_end",
            "test_a_store_that_hears_nobody_ends_no_source",
            "test_only_who_was_promised_the_epoch_ends_a_source",
            "test_nothing_goes_before_it_is_archived",
        ),
    ),
    "a failed fsync": Held(
        ("failed_syncs_are_tried_again", "acknowledged_before_the_sync"),
        ("test_a_promise_is_answered_when_it_is_durable",),
    ),
    "late control messages of an old epoch": Held(
        (),
        (
            "test_fenced_while_promising_goes_above_what_was_heard",
            "test_a_batch_of_another_source_or_epoch_is_refused",
        ),
    ),
    "process pauses and clock jumps": Held(
        ("promise_leaves_the_stream", "the_clock_decides_alone")
    ),
    "membership change": Held(
        (),
        (
            "test_a_stream_moves_by_way_of_both_policies_and_the_record_then_forgets_the_old_one",
            "test_it_is_ready_once_enough_were_heard_and_nothing_is_lacking",
        ),
    ),
    "a store that lags and never catches up": Held(
        (), ("test_what_is_lacking_in_every_small_world",)
    ),
}
EVERYTHING = {**RULES, **HAZARDS}
MISSED_IN_WORLDS = {str(each) for each in guards_of_worlds.MUTATIONS}


@pytest.mark.parametrize("what", EVERYTHING)
def test_worlds_miss_each_guard(what: str) -> None:
    assert EVERYTHING[what].guards or EVERYTHING[what].tests
    assert set(EVERYTHING[what].guards) - MISSED_IN_WORLDS == set()


def test_each_guard_that_worlds_miss_is_named() -> None:
    """Else nobody would miss its mutation."""
    named = {guard for held in EVERYTHING.values() for guard in held.guards}
    assert MISSED_IN_WORLDS - named == set()


def test_each_test_that_is_named_exists() -> None:
    named = {test for held in EVERYTHING.values() for test in held.tests}
    assert named - functions(Path(__file__).parents[1].rglob("test_*.py")) == set()
