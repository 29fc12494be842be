"""Each property of the stateful test of consumer groups, alone, finds a coordinator that breaks it."""

import pytest

from tests.coordinator.consumer.mutants import CONSUMER_MUTANTS
from tests.coordinator.consumer.test_groups_stateful import Members
from tests.coordinator.one_property import failure_of, without
from tests.selection import sized

PROPERTIES = [
    "e1_epochs_are_in_order_and_only_grow", "e2_nobody_shares_a_partition",
    "e3_a_target_gives_all_that_is_wanted_to_who_wants_it", "e4_who_is_at_the_target_has_nothing_of_others",
    "e5_stable_means_that_all_are_where_they_are_to_be", "e6_going_away_costs_nothing",
    "e6_who_comes_back_gets_what_it_had", "e6_a_session_that_ends_costs_an_epoch",
    "e7_an_instance_id_in_use_is_refused", "e8_offsets_are_taken_from_who_has_the_partition",
    "e9_all_ends_well", "e10_who_asks_again_gets_the_same_answer",
    "every_member_has_a_session_and_its_deadlines", "the_log_makes_the_same_group",
]  # fmt: skip
CASES = [
    ("e1_epochs_are_in_order_and_only_grow", "e1_members_run_ahead"),
    ("e2_nobody_shares_a_partition", "e2_crabka_521_the_whole_target_is_handed_out_at_once"),
    ("e2_nobody_shares_a_partition", "e2_kafka_16147_who_gives_up_takes_the_new_owner_along"),
    ("e3_a_target_gives_all_that_is_wanted_to_who_wants_it", "e3_a_partition_is_forgotten"),
    ("e4_who_is_at_the_target_has_nothing_of_others", "e4_who_has_something_to_give_up_goes_ahead_with_it"),
    ("e5_stable_means_that_all_are_where_they_are_to_be", "e5_a_group_is_stable_at_once"),
    ("e6_going_away_costs_nothing", "e6_going_away_costs_an_epoch"),
    ("e6_who_comes_back_gets_what_it_had", "e6_who_comes_back_begins_with_nothing"),
    ("e6_a_session_that_ends_costs_an_epoch", "e6_sessions_of_static_members_never_end"),
    ("e7_an_instance_id_in_use_is_refused", "e7_an_instance_id_goes_to_whoever_asks"),
    ("e8_offsets_are_taken_from_who_has_the_partition", "e8_a_member_may_commit_from_any_epoch_before"),
    ("e8_offsets_are_taken_from_who_has_the_partition", "e8_kip_1251_only_the_epoch_counts"),
    ("e9_all_ends_well", "e9_who_waits_for_others_is_forgotten"),
    ("e10_who_asks_again_gets_the_same_answer", "e10_whoever_joins_costs_an_epoch"),
    ("every_member_has_a_session_and_its_deadlines", "a_rebalance_may_last_for_ever"),
]


def test_every_property_has_a_coordinator_that_breaks_it():
    said = {name for name in vars(Members) if name.startswith(("e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8", "e9"))}
    assert said == {name for name in PROPERTIES if name[0] == "e" and name[1].isdigit()}
    assert said <= {kept for kept, _ in CASES}
    assert {name for _, name in CASES} == CONSUMER_MUTANTS.keys()


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(("kept", "name"), sized(CASES[::6], CASES))
def test_a_property_alone_finds_who_breaks_it(monkeypatch, kept, name):
    CONSUMER_MUTANTS[name](monkeypatch)
    # What is asked of every answer stays.
    machine = without(Members, [name for name in PROPERTIES if name != kept])
    assert kept in failure_of(machine, 30)
