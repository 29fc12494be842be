"""Coordinators with one rule of consumer groups (KIP-848) broken; see `mutants`."""

from kgm.coordinator.consumer import fencing, heartbeat, member_update, records, target
from kgm.coordinator.consumer.reconciliation import Reconciliation
from kgm.coordinator.groups.consumer_group import ConsumerGroup
from kgm.coordinator.groups.consumer_member import AWAY, NOTHING
from kgm.coordinator.offsets.fencing import CommitPartitionValidator
from kgm.model.errors import ErrorCode
from kgm.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from kgm.records.member_states import MemberState

CONSUMER_MUTANTS = {}


def mutant(act):
    CONSUMER_MUTANTS[act.__name__] = act
    return act


@mutant
def e1_members_run_ahead(patch):
    original = Reconciliation._advance

    def advance(self, **how):
        after = original(self, **how)
        return after._replace(member_epoch=after.member_epoch + (after.state is MemberState.STABLE))

    patch.setattr(Reconciliation, "_advance", advance)


@mutant
def e2_crabka_521_the_whole_target_is_handed_out_at_once(patch):
    patch.setattr(Reconciliation, "_free", lambda _self, _topic_id, partitions: list(partitions))


@mutant
def e2_kafka_16147_who_gives_up_takes_the_new_owner_along(patch):
    """Writing a member's record forgets who owns its partitions, including those that it keeps."""

    def put(self, member):
        before = self.members.get(member.member_id)
        original(self, member)
        if before is not None:
            self._disown_all(before._replace(member_epoch=member.member_epoch))

    original = ConsumerGroup.put
    patch.setattr(ConsumerGroup, "put", put)


@mutant
def e3_a_partition_is_forgotten(patch):
    original = target._assign

    def assign(*args, **kwargs):
        found = original(*args, **kwargs)
        member_id = next((m for m, (given, _) in found.items() if given), None)
        if member_id is not None:
            less = {topic_id: partitions[1:] for topic_id, partitions in found[member_id][0].items()}
            found[member_id] = less, less
        return found

    patch.setattr(target, "_assign", assign)


@mutant
def e4_who_has_something_to_give_up_goes_ahead_with_it(patch):
    original = Reconciliation._advance

    def advance(self, **how):
        after = original(self, **how)
        if after.state is not MemberState.UNREVOKED_PARTITIONS:
            return after
        return self.member._replace(member_epoch=self.target_epoch, previous_member_epoch=self.member.member_epoch)

    patch.setattr(Reconciliation, "_advance", advance)


@mutant
def e5_a_group_is_stable_at_once(patch):
    def state(self):
        if not self.members:
            return "Empty"
        return "Assigning" if self.group_epoch > self.assignment_epoch else "Stable"

    patch.setattr(ConsumerGroup, "state", property(state))


@mutant
def e6_going_away_costs_an_epoch(patch):
    original = heartbeat._leave

    def leave(message, installed, event):
        original(message, installed, event)
        if message.member_epoch == AWAY and event.records:
            epoch = installed.group_epoch + 1
            event.write(records.epoch_record(installed.group_id, epoch, installed.metadata_hash))

    patch.setattr(heartbeat, "_leave", leave)


@mutant
def e6_who_comes_back_begins_with_nothing(patch):
    original = member_update.find_static

    def find_static(group, member_id, *args, **kwargs):
        found = original(group, member_id, *args, **kwargs)
        if isinstance(found, ErrorCode) or found.member_epoch or not kwargs["creates"]:
            return found
        return found._replace(assigned=NOTHING)

    patch.setattr(member_update, "find_static", find_static)


@mutant
def e6_sessions_of_static_members_never_end(patch):
    original = fencing.expired

    def expired(group, key, event):
        if group.members[key.member_id].group_instance_id is None:
            original(group, key, event)
        else:
            event.set_timer(key, 45_000)

    patch.setattr(fencing, "expired", expired)


@mutant
def e7_an_instance_id_goes_to_whoever_asks(patch):
    class Anything:
        def __eq__(self, _other):
            return True

        __hash__ = None

    patch.setattr(member_update, "AWAY", Anything())


@mutant
def e8_a_member_may_commit_from_any_epoch_before(patch):
    patch.setattr(CommitPartitionValidator, "check", lambda *_: ErrorCode.NONE)


@mutant
def e8_kip_1251_only_the_epoch_counts(patch):
    patch.setattr(CommitPartitionValidator, "check", lambda self, *_: self.error)


@mutant
def e9_who_waits_for_others_is_forgotten(patch):
    original = Reconciliation.next

    def following(self):
        waits = self.member.state is MemberState.UNRELEASED_PARTITIONS and self.member.member_epoch == self.target_epoch
        return self.member if waits else original(self)

    patch.setattr(Reconciliation, "next", following)


@mutant
def e10_whoever_joins_costs_an_epoch(patch):
    original = member_update.write_member

    def write_member(group, before, after, event):
        changed = original(group, before, after, event)
        message = event.request.message
        return changed or (isinstance(message, ConsumerGroupHeartbeatRequest) and message.member_epoch == 0)

    patch.setattr(member_update, "write_member", write_member)


@mutant
def a_rebalance_may_last_for_ever(patch):
    patch.setattr(member_update.timers, "start_rebalance", lambda *_: None)
