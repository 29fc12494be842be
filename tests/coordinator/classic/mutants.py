"""Coordinators with one rule broken, which the tests of the rules must detect.

Each mutant takes pytest's monkeypatch (or anything with its `setattr`) and breaks one rule until that is undone. If Kafka
once had the bug, its number is in the name."""

from dataclasses import replace

from kgm.coordinator import dispatch, state
from kgm.coordinator.admin import describe_list_delete
from kgm.coordinator.classic import join, leave, rebalance
from kgm.coordinator.groups.classic_group import ClassicGroup
from kgm.coordinator.groups.classic_state import ClassicState
from kgm.coordinator.offsets import commit, txn_commit
from kgm.coordinator.offsets.store import Offsets
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.join_group_request import JoinGroupRequest
from kgm.protocol.messages.leave_group_request import LeaveGroupRequest

MUTANTS = {}


def mutant(act):
    MUTANTS[act.__name__] = act
    return act


# -- members


@mutant
def nobody_is_fenced(patch):
    original = ClassicGroup.check_member
    patch.setattr(
        ClassicGroup, "check_member", lambda self, member_id, _instance, **how: original(self, member_id, None, **how)
    )


@mutant
def kafka_9801_a_static_restart_in_a_sync_phase_goes_unnoticed(patch):
    original = rebalance.prepare_rebalance

    def prepare_rebalance(group, event):
        joins = event.request is not None and isinstance(event.request.message, JoinGroupRequest)
        if joins and group.state is ClassicState.COMPLETING_REBALANCE and event.request.message.group_instance_id:
            return
        original(group, event)

    patch.setattr(rebalance, "prepare_rebalance", prepare_rebalance)


@mutant
def kafka_13435_a_restarted_leader_has_to_assign(patch):
    original = rebalance.joined_reply

    def joined_reply(group, member_id, version, *, for_leader, **how):
        return original(group, member_id, version, for_leader=group.leader == member_id, **how)

    patch.setattr(rebalance, "joined_reply", joined_reply)


@mutant
def kafka_10284_the_new_id_is_not_written(patch):
    original = join._replace_static

    def replace_static(joining, *ids):
        original(joining, *ids)
        joining.event.records.clear()

    patch.setattr(join, "_replace_static", replace_static)


@mutant
def kafka_14009_timeouts_stay_as_they_were(patch):
    original = join._update

    def update(joining, member):
        joining.message.session_timeout_ms = member.session_timeout_ms
        joining.message.rebalance_timeout_ms = member.rebalance_timeout_ms
        original(joining, member)

    patch.setattr(join, "_update", update)


@mutant
def static_members_outlive_their_session(patch):
    original = rebalance.session_expired

    def session_expired(group, member_id, event):
        member = group.members.get(member_id)
        if member is None or member.group_instance_id is None:
            original(group, member_id, event)

    patch.setattr(rebalance, "session_expired", session_expired)


@mutant
def static_members_outlive_the_sync_phase(patch):
    def sync_phase_expired(group, event):
        for member_id in list(group.soft.pending_syncs):
            if group.members[member_id].group_instance_id is None:
                rebalance.remove_member(group, member_id, event)
        rebalance.prepare_rebalance(group, event)

    patch.setattr(rebalance, "sync_phase_expired", sync_phase_expired)


@mutant
def kafka_7610_new_members_may_wait_for_ever(patch):
    original = rebalance.session_expired

    def session_expired(group, member_id, event):
        if member_id not in group.members or not group.members[member_id].is_new:
            original(group, member_id, event)

    patch.setattr(rebalance, "session_expired", session_expired)


@mutant
def pending_ids_fill_the_group(patch):
    def has_room(group, member_id, max_size):
        return member_id in group.members or len(group.members) + len(group.soft.pending_joins) < max_size

    patch.setattr(join, "_has_room", has_room)


@mutant
def pending_ids_do_not_hold_a_join_phase(patch):
    patch.setattr(ClassicGroup, "all_joined", property(lambda self: len(self.members) == len(self.soft.parked_joins)))


@mutant
def a_leaver_need_not_say_who_it_is(patch):
    def remove(group, leaving, event):
        member_id = group.static_ids.get(leaving.group_instance_id, leaving.member_id)
        if member_id not in group.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        rebalance.remove_member(group, member_id, event)
        return ErrorCode.NONE

    patch.setattr(leave, "_remove", remove)


# -- phases


@mutant
def the_initial_delay_is_never_extended(patch):
    patch.setattr(rebalance, "join_phase_expired", rebalance.complete_join)


@mutant
def kafka_12890_a_sync_phase_may_last_for_ever(patch):
    original = rebalance.complete_join

    def complete_join(group, event):
        original(group, event)
        event.timers.pop(rebalance.sync_key(group), None)

    patch.setattr(rebalance, "complete_join", complete_join)


@mutant
def assignments_outlive_a_broken_sync_phase(patch):
    original = rebalance._fail_sync_phase

    def fail_sync_phase(group, error, event):
        before = {member.member_id: member.assignment for member in group.members.values()}
        original(group, error, event)
        for member_id, member in list(group.members.items()):
            group.members[member_id] = member._replace(assignment=before[member_id])

    patch.setattr(rebalance, "_fail_sync_phase", fail_sync_phase)


@mutant
def a_loaded_group_forgets_instance_ids(patch):
    original = state.group_from_record

    def group_from_record(group_id, value):
        group = original(group_id, value)
        group.static_ids.clear()
        return group

    patch.setattr(state, "group_from_record", group_from_record)


# -- offsets


@mutant
def a_commit_is_no_sign_of_life(patch):
    patch.setattr(commit, "_extend_session", lambda *_: None)


@mutant
def a_transaction_waits_for_the_sync_phase(patch):
    original = txn_commit._commit_error

    def commit_error(message, group, event):
        error = original(message, group, event)
        if error is ErrorCode.NONE and group is not None and group.state.value == "CompletingRebalance":
            return ErrorCode.REBALANCE_IN_PROGRESS
        return error

    patch.setattr(txn_commit, "_commit_error", commit_error)


@mutant
def a_marker_overwrites_newer_offsets(patch):
    original = Offsets.end_transaction

    def end_transaction(self, producer_id, *, commit):
        pending = self.pending.get(producer_id, {})
        original(self, producer_id, commit=commit)
        if commit:
            for group_id, offsets in pending.items():
                self.by_group.setdefault(group_id, {}).update(offsets)

    patch.setattr(Offsets, "end_transaction", end_transaction)


@mutant
def an_aborted_offset_counts(patch):
    original = Offsets.end_transaction
    patch.setattr(
        Offsets, "end_transaction", lambda self, producer_id, *, commit: original(self, producer_id, commit=True)
    )


@mutant
def nothing_is_unstable(patch):
    patch.setattr(Offsets, "unstable_of", lambda _, __: {})


@mutant
def pending_offsets_outlive_a_tombstone(patch):
    original = Offsets.replay

    def offsets_replay(self, key, value, producer_id=None):
        if value is not None:
            return original(self, key, value, producer_id)
        unstable, self.unstable = self.unstable, {}
        original(self, key, value, producer_id)
        self.unstable = unstable
        return None

    patch.setattr(Offsets, "replay", offsets_replay)


@mutant
def kafka_14201_a_simple_commit_is_fenced(patch):
    original = commit._commit_error

    def commit_error(message, group, event):
        if group is not None and message.group_instance_id is not None and message.generation_id_or_member_epoch < 0:
            return ErrorCode.FENCED_INSTANCE_ID
        return original(message, group, event)

    patch.setattr(commit, "_commit_error", commit_error)


@mutant
def offsets_of_empty_groups_expire_from_their_commit(patch):
    original = dispatch.expired_offsets

    def expired_offsets(group, offsets, **how):
        return original(replace(group, protocol_type=None), offsets, **how)

    patch.setattr(dispatch, "expired_offsets", expired_offsets)


# -- looking


@mutant
def state_filters_mind_the_case(patch):
    original = describe_list_delete.handle_list

    def handle_list(message, groups, event):
        message.states_filter = [state for state in message.states_filter if state[:1].isupper()] or (
            ["none"] if message.states_filter else []
        )
        original(message, groups, event)

    patch.setattr(describe_list_delete, "handle_list", handle_list)


# -- one for each property that the stateful tests check


@mutant
def s1_a_restart_leaves_the_instance_with_its_old_id(patch):
    original = ClassicGroup.rename

    def rename(self, old_id, new_id, **how):
        renamed = original(self, old_id, new_id, **how)
        self.static_ids[renamed.group_instance_id] = old_id
        return renamed

    patch.setattr(ClassicGroup, "rename", rename)


@mutant
def s2_everybody_gets_what_one_of_them_should(patch):
    original = rebalance.complete_sync
    patch.setattr(
        rebalance,
        "complete_sync",
        lambda group, given, event: original(group, dict.fromkeys(given, next(iter(given.values()), b"")), event),
    )


@mutant
def s3_everybody_gets_what_the_next_one_should(patch):
    original = rebalance.complete_sync

    def complete_sync(group, given, event):
        original(group, dict(zip(given, [*list(given.values())[1:], *list(given.values())[:1]], strict=True)), event)

    patch.setattr(rebalance, "complete_sync", complete_sync)


@mutant
def s4_a_static_restart_costs_a_rebalance(patch):
    original = join._replace_static

    def replace_static(joining, *ids):
        original(joining, *ids)
        if joining.group.state is ClassicState.STABLE:
            rebalance.prepare_rebalance(joining.group, joining.event)

    patch.setattr(join, "_replace_static", replace_static)


@mutant
def s6_a_commit_is_taken_from_whoever_sends_it(patch):
    patch.setattr(commit, "_commit_error", lambda *_: ErrorCode.NONE)
    patch.setattr(commit, "_extend_session", lambda *_: None)


@mutant
def s7_a_generation_is_left_out(patch):
    original = ClassicGroup.start_generation

    def start_generation(self, now, **how):
        self.generation += 1
        original(self, now, **how)

    patch.setattr(ClassicGroup, "start_generation", start_generation)


@mutant
def s9_kafka_18188_a_leave_answers_with_the_id_it_found(patch):
    original = leave.handle_leave

    def handle_leave(message, installed, event):
        known = {} if installed is None else dict(installed.static_ids)
        original(message, installed, event)
        for reply in event.replies:
            for member in getattr(reply.message, "members", ()):
                member.member_id = member.member_id or known.get(member.group_instance_id, "")

    patch.setattr(leave, "handle_leave", handle_leave)


@mutant
def s10_who_leaves_is_not_missed(patch):
    original = rebalance.prepare_rebalance

    def prepare_rebalance(group, event):
        if event.request is None or not isinstance(event.request.message, LeaveGroupRequest):
            original(group, event)

    patch.setattr(rebalance, "prepare_rebalance", prepare_rebalance)


@mutant
def s12_nobody_leads_when_the_leader_has_gone(patch):
    original = ClassicGroup.remove

    def remove(self, member_id, **how):
        leader = self.leader
        original(self, member_id, **how)
        self.leader = leader

    patch.setattr(ClassicGroup, "remove", remove)


@mutant
def s14_a_group_is_stable_at_once(patch):
    original = ClassicGroup.start_generation

    def start_generation(self, now, **how):
        original(self, now, **how)
        if self.members:
            self.state = ClassicState.STABLE

    patch.setattr(ClassicGroup, "start_generation", start_generation)


@mutant
def l3_a_join_phase_goes_on_until_everybody_is_there(patch):
    original = rebalance.join_phase_expired

    def join_phase_expired(group, event):
        if group.soft.previous_state is ClassicState.EMPTY:
            original(group, event)
        else:
            event.set_timer(rebalance.join_key(group), max(group.rebalance_timeout_ms, 1_000))

    patch.setattr(rebalance, "join_phase_expired", join_phase_expired)
