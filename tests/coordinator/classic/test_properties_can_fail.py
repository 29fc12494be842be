"""Each property of the stateful tests, alone, finds a coordinator that breaks it."""

import pytest

from tests.coordinator.classic.mutants import MUTANTS
from tests.coordinator.classic.test_stateful import Coordination
from tests.coordinator.consumer.test_clients_stateful import Consumers
from tests.coordinator.one_property import failure_of, without
from tests.selection import sized

INVARIANTS = [
    "a_fork_lives_its_own_life", "l2_a_join_phase_ends_when_it_must", "l3_nobody_waits_beyond_its_time",
    "s11_every_step_is_what_the_log_makes", "s11_the_log_makes_the_same_group", "s11_through_bytes_and_compaction",
    "s13_timers_belong_to_somebody", "s14_states_follow_each_other_as_in_kafka", "s1_s12_members_and_indexes_agree",
    "s2_nobody_shares_an_assignment", "s3_members_have_what_their_leader_gave_them", "s7_generations_grow_by_one",
    "s8_who_waits_is_parked_and_everybody_else_has_one_answer", "s15_a_group_at_rest_changes_in_replay_only",
]  # fmt: skip
ENDINGS = ["all_ends_well", "s11_every_prefix_is_what_it_was_and_so_is_its_compaction"]
RULES = None
CASES = [
    (Coordination, "s1_s12_members_and_indexes_agree", "s1_a_restart_leaves_the_instance_with_its_old_id"),
    (Coordination, "s2_nobody_shares_an_assignment", "s2_everybody_gets_what_one_of_them_should"),
    (Consumers, "s3_members_have_what_their_leader_gave_them", "s3_everybody_gets_what_the_next_one_should"),
    (Coordination, RULES, "s4_a_static_restart_costs_a_rebalance"),
    (Coordination, RULES, "nobody_is_fenced"),  # S5
    (Consumers, RULES, "s6_a_commit_is_taken_from_whoever_sends_it"),
    (Coordination, "s7_generations_grow_by_one", "s7_a_generation_is_left_out"),
    (
        Coordination,
        "s8_who_waits_is_parked_and_everybody_else_has_one_answer",
        "kafka_9801_a_static_restart_in_a_sync_phase_goes_unnoticed",
    ),
    (Coordination, RULES, "s9_kafka_18188_a_leave_answers_with_the_id_it_found"),
    (Coordination, RULES, "s10_who_leaves_is_not_missed"),
    (Coordination, "s11_the_log_makes_the_same_group", "kafka_10284_the_new_id_is_not_written"),
    (Consumers, "s11_every_step_is_what_the_log_makes", "kafka_10284_the_new_id_is_not_written"),
    (Consumers, "s11_every_prefix_is_what_it_was_and_so_is_its_compaction", "an_aborted_offset_counts"),
    (Coordination, "s1_s12_members_and_indexes_agree", "s12_nobody_leads_when_the_leader_has_gone"),
    (Coordination, "s13_timers_belong_to_somebody", "kafka_12890_a_sync_phase_may_last_for_ever"),
    (Coordination, "s14_states_follow_each_other_as_in_kafka", "s14_a_group_is_stable_at_once"),
    (Coordination, "s15_a_group_at_rest_changes_in_replay_only", "kafka_10284_the_new_id_is_not_written"),
    (Coordination, "all_ends_well", "static_members_outlive_their_session"),  # L1
    (Consumers, "l2_a_join_phase_ends_when_it_must", "l3_a_join_phase_goes_on_until_everybody_is_there"),
    (Consumers, "l3_nobody_waits_beyond_its_time", "l3_a_join_phase_goes_on_until_everybody_is_there"),
]


def only(machine, kept):
    """The machine with one of its properties, or with what its rules ask for themselves."""
    # A group that is healed in the middle has to get well: that is L1.
    healing = ["the_round_comes_to_its_end"] if kept == "l3_nobody_waits_beyond_its_time" else []
    return without(machine, [name for name in (*INVARIANTS, *ENDINGS, *healing) if name != kept])


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "kept", "name"), sized(CASES[::9], CASES), ids=lambda value: value if isinstance(value, str) else None
)
def test_a_property_alone_finds_who_breaks_it(monkeypatch, machine, kept, name):
    MUTANTS[name](monkeypatch)
    traceback = failure_of(only(machine, kept), 40)
    if kept is not RULES:
        assert kept in traceback
