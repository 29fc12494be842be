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
    """The metadata of a cluster."""

    def __init__(self, topics):
        self._partitions = {row["name"]: set(range(row["partitions"])) for row in topics}

    def topics(self):
        return set(self._partitions)

    def partitions_for_topic(self, topic):
        return self._partitions.get(topic)


def of_kafka_python(case):
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    assignor = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}[case["assignor"]]()
    members = [
        Member(row["member_id"], row.get("group_instance_id"), assignor.metadata(row["topics"]))
        for row in case["members"]
    ]
    answer = assignor.assign(Cluster(case["topics"]), members)
    return {
        member: {topic: list(numbers) for topic, numbers in found.assigned_partitions}
        for member, found in answer.items()
    }


def of_aiokafka(case):
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    assignor = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}[case["assignor"]]
    members = {row["member_id"]: assignor.metadata(row["topics"]) for row in case["members"]}
    answer = assignor.assign(Cluster(case["topics"]), members)
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
