"""What Kafka itself reads in the segments (truth.jsonl, groups.json): the slow, obvious way to a group's history."""

from collections import defaultdict
from functools import cache

from tests.records.real_logs import groups, partitions, truth

GROUP_METADATA = 2


@cache
def records():
    """The GroupMetadata records of each classic group, in order, with None for a tombstone's value."""
    found = defaultdict(list)
    for number in partitions("plain"):
        for line in truth("plain", number):
            if (line["key"] or {}).get("type") == GROUP_METADATA:
                found[line["key"]["data"]["group"]].append(line)
    return dict(found)


def transitions():
    """(group, generation before, generation after, timestamp, owners before, owners after) wherever the generation
    rises."""
    for group, lines in records().items():
        before = None
        for line in lines:
            value = line["value"]
            if value is not None and before is not None:
                one, other = before["value"]["data"], value["data"]
                if one["generation"] != other["generation"]:
                    yield (
                        group,
                        one["generation"],
                        other["generation"],
                        line["timestamp"],
                        owners(before),
                        owners(line),
                    )
            before = None if value is None else line


def owners(line):
    """{(topic, partition): seat}, by Kafka's reading of the assignments."""
    seats = {
        member["memberId"]: member.get("groupInstanceId") or member["memberId"]
        for member in line["value"]["data"]["members"]
    }
    return {
        (topic["topic"], partition): seats[member["memberId"]]
        for member in (line.get("decoded") or {}).get("members", ())
        for topic in (member["assignment"] or {}).get("assignedPartitions", ())
        for partition in topic["partitions"]
    }


def classic_groups():
    """What the broker reported about its classic groups after it had loaded the segments, by id."""
    return {group["groupId"]: group for group in groups("plain") if group["type"] == "classic"}


def story():
    """What was done when the segments were made."""
    import gzip
    import json

    from tests.records.real_logs import DATA

    with gzip.open(DATA / "plain" / "story.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
