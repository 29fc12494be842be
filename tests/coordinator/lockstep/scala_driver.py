"""kgm's coordinator with the rules of Kafka 3.9, and Kafka's coordinator in Scala (3.9.1), step by step on one clock.
Like `driver`, but the members of a group must also be in the same order: in replies, in records and in the group."""

from kgm.coordinator.contract.outcome import TimerKind
from kgm.model.broker_version import BrokerVersion
from kgm.protocol.messages.describe_groups_request import DescribeGroupsRequest
from kgm.protocol.messages.list_groups_request import ListGroupsRequest
from tests.coordinator.lockstep.classic_histories import GROUP_STATES, Walk
from tests.coordinator.lockstep.driver import KafkasCoordinator, Lockstep, _normal, _state
from tests.kafka.jars import classpath

VERSION = BrokerVersion.parse("3.9")
_OFFSET = b"\x00\x01"


class ScalaCoordinator(KafkasCoordinator):
    """The JVM with the coordinator of 3.9.1."""

    MAIN_CLASS = "kafka.coordinator.group.ScalaCoordinatorOracle"
    SOURCES = ("ScalaCoordinatorOracle",)

    def __init__(self):
        super().__init__("3.9.1")

    @staticmethod
    def class_path(version):
        return classpath(f"scala-coordinator-tests-{version}")


class ScalaLockstep(Lockstep):
    KEEPS_ORDER = True

    def _comparable(self, rows):
        """The records to compare: kgm writes committed offsets as 4.3 does, in the next version of the record."""
        return [row for row in rows if row[0][:2] != _OFFSET]

    def _settled(self, rows):
        """Sorts committed offsets, which come in the order of a hash map."""
        return sorted(row for row in rows if row[0][:2] == _OFFSET) + self._comparable(rows)

    def _compare_groups(self):
        groups = self.engine._state.groups
        ours = {group_id: _state(group) for group_id, group in groups.items()}
        for group_id, row in ours.items():
            del row["previous"]
            row["order"] = [member.member_id for member in groups[group_id].listed(has_scala_maps=True)]
        theirs = {group_id: _normal(group) for group_id, group in self.answer["groups"].items()}
        for group_id, group in theirs.items():
            # A simple group's first timestamp is not in the log.
            if group_id in ours and ours[group_id]["timestamp"] == -1:
                group["timestamp"] = -1
        assert ours.keys() == theirs.keys()
        for group_id, group in ours.items():
            names = {name for name in {*group, *theirs[group_id]} if group.get(name) != theirs[group_id].get(name)}
            difference = [f"{name}\nours   {group.get(name)}\nKafka's {theirs[group_id].get(name)}" for name in names]
            assert not difference, "\n".join(difference)

    def _compare_timers(self):
        """Does not compare sessions of members that wait for a reply: in kgm they end without effect, and Kafka has no
        timer for them."""
        meant = set()
        for group_id, group in self.answer["groups"].items():
            meant |= {f"sync-{group_id}", f"join-{group_id}"}
            meant |= {f"heartbeat-{group_id}-{id_}" for id_ in group["pending_joins"]}
            meant |= {
                f"heartbeat-{group_id}-{id_}"
                for id_, member in group["members"].items()
                if member["new"] or not (member["joining"] or member["syncing"])
            }
        theirs = {key: deadline for key, deadline in self.answer["timers"].items() if key in meant}
        ours = {
            self._kafka_key(key): deadline
            for key, deadline in self.engine.deadlines.items()
            if key.kind is not TimerKind.OFFSET_EXPIRATION
        }
        ours = {key: deadline for key, deadline in ours.items() if key in meant}
        assert ours == theirs, (
            f"ours {dict(ours.items() - theirs.items())}\nKafka's {dict(theirs.items() - ours.items())}"
        )


class ScalaWalk(Walk):
    """One random history, without transactions and failures to append."""

    LOCKSTEP = ScalaLockstep

    def __init__(self, kafka, seed):
        super().__init__(kafka, seed)
        self.failing = False

    def settings(self):
        return super().settings() | {"kafka_version": VERSION}

    def actions(self):
        others = (self.fetch, self.delete_offsets, self.commit_in_transaction, self.end_transaction)
        return [(act, weight) for act, weight in super().actions() if act not in others]

    def look(self):
        r = self.random
        if r.random() < 0.5:
            message = ListGroupsRequest(states_filter=r.sample(GROUP_STATES, r.randint(0, 3)))
            self.step.request(message, r.choice([4, 5]))
        else:
            groups = [r.choice(["g", "h", "none"]) for _ in range(2)]
            self.step.request(DescribeGroupsRequest(groups=groups), r.choice([0, 1, 2, 3, 4, 5]))

    def reload(self):
        """A broker restarts, sometimes with a lower limit; sometimes after a cleaning."""
        self.step.reload(compact=self.random.random() < 0.3, **self.settings())
