"""The assignors of kafka-python and aiokafka: reads cases from standard input, one JSON object a line, and answers each
with {"assignment"} or {"error"}. It runs with the folder into which both were installed as PYTHONPATH."""

import json
import sys
from typing import Any, NamedTuple


class Member(NamedTuple):
    member_id: str
    group_instance_id: str | None
    metadata: Any


class Cluster:
    """The leader's metadata, of the topics to which members subscribe."""

    def __init__(self, case):
        wanted = {topic for row in case["members"] for topic in row["topics"]}
        self._partitions = {
            row["name"]: set(range(row["partitions"])) for row in case["topics"] if row["name"] in wanted
        }

    def topics(self):
        return set(self._partitions)

    def partitions_for_topic(self, topic):
        return self._partitions.get(topic)


def partitions_of(row, kind):
    """The assignment that a member last received."""
    return [kind(topic, number) for topic, numbers in sorted(row.get("owned", {}).items()) for number in numbers]


def of_kafka_python(case):
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from kafka.structs import TopicPartition

    kinds = {
        "range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor, "sticky": StickyPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }  # fmt: skip
    members = []
    for row in case["members"]:
        assignor = kinds[case["assignor"]]()
        if row.get("owned"):
            assignor.member_assignment = partitions_of(row, TopicPartition)
            assignor.generation = row["generation"]
        members.append(Member(row["member_id"], row.get("group_instance_id"), assignor.metadata(row["topics"])))
    answer = kinds[case["assignor"]]().assign(Cluster(case), members)
    return {
        member: {topic: list(numbers) for topic, numbers in found.assigned_partitions}
        for member, found in answer.items()
    }


def of_aiokafka(case):
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
    from aiokafka.structs import TopicPartition

    kinds = {
        "range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor, "sticky": StickyPartitionAssignor,
    }  # fmt: skip
    assignor, members = kinds[case["assignor"]], {}
    for row in case["members"]:
        if assignor is StickyPartitionAssignor:
            # As its coordinator does: it never passes on the generation.
            assignor.member_assignment = partitions_of(row, TopicPartition) or None
        members[row["member_id"]] = assignor.metadata(row["topics"])
    answer = assignor.assign(Cluster(case), members)
    return {member: {topic: list(numbers) for topic, numbers in found.assignment} for member, found in answer.items()}


def main():
    for line in sys.stdin:
        try:
            case = json.loads(line)
            found = {"kafka-python": of_kafka_python, "aiokafka": of_aiokafka}[case["library"]](case)
            print(json.dumps({"assignment": found}), flush=True)
        except Exception as error:  # noqa: BLE001  (whatever the library raises is its answer)
            print(json.dumps({"error": repr(error)}), flush=True)


if __name__ == "__main__":
    main()
