"""Logs of groups that appear, change and disappear at random, in all the ways that a reader must handle."""

import struct

import pyarrow as pa

from kgm.history.schema import RAW
from kgm.protocol import codec
from kgm.protocol.subscription import MemberAssignment, Subscription, encode_assignment, encode_subscription
from kgm.records.messages.group_metadata_key import GroupMetadataKey
from kgm.records.messages.group_metadata_value import GroupMetadataValue, MemberMetadata
from kgm.records.messages.legacy_offset_commit_key import LegacyOffsetCommitKey
from kgm.records.messages.legacy_offset_commit_value import LegacyOffsetCommitValue
from kgm.records.messages.offset_commit_key import OffsetCommitKey
from kgm.records.messages.offset_commit_value import OffsetCommitValue
from kgm.records.record import Record, encode_record

TOPICS = ("orders", "payments", "日本")
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")


class Group:
    """A group that changes at random. odd: whether it does what no broker would allow."""

    def __init__(self, name, rng, *, odd):
        self.name, self.rng, self.odd = name, rng, odd
        self.generation, self.members, self.lives = 0, [], 0
        self.consumer = rng.random() < 0.9
        self.version = rng.choice([3, 3, 3, 0, 1, 2, 4])
        self.written = False

    def member(self, seat):
        self.lives += 1
        static = self.rng.random() < 0.6
        topics = self.rng.sample(TOPICS, self.rng.randint(1, 2))
        return MemberMetadata(
            member_id=f"{seat}-{self.lives}", group_instance_id=seat if static else None, client_id=seat,
            subscription=self.subscription(topics), session_timeout=10_000,
        )  # fmt: skip

    def subscription(self, topics):
        if self.rng.random() < 0.05:
            return self.rng.choice([b"", b"\0", b"\0\1\0"])
        generation = self.generation if self.rng.random() < 0.5 else -1
        return encode_subscription(Subscription(topics=tuple(topics), generation_id=generation))

    def assign(self):
        places = [(topic, partition) for topic in TOPICS for partition in range(self.rng.randint(0, 4))]
        shares = {member.member_id: {} for member in self.members}
        for number, (topic, partition) in enumerate(places):
            member = self.members[(number + self.rng.randint(0, 1)) % len(self.members)]
            shares[member.member_id].setdefault(topic, []).append(partition)
            if self.odd and self.rng.random() < 0.1:
                other = self.rng.choice(self.members)
                shares[other.member_id].setdefault(topic, []).append(partition)
        for member in self.members:
            member.assignment = encode_assignment(MemberAssignment(partitions=shares[member.member_id]))
            if self.rng.random() < 0.03:
                member.assignment = b"\0\0"

    def next(self):
        """The group's next record."""
        rng = self.rng
        roll = rng.random()
        self.members = [copy(member) for member in self.members]
        if not self.written or roll < 0.08:
            self.generation, self.members = (0, []) if not self.written else (self.generation + 1, [])
            self.written = True
        elif roll < 0.12:
            self.written, self.members = False, []
            return encode_record(Record(GroupMetadataKey(group=self.name), None))
        elif roll < 0.3 and self.members:
            self.replace(rng.randrange(len(self.members)))
        elif roll < 0.85:
            self.generation += 1 if rng.random() < 0.8 else rng.randint(-1, 3)
            self.shuffle()
        if self.odd and rng.random() < 0.05:
            self.consumer = not self.consumer
        if rng.random() < 0.03:
            self.version = rng.randint(0, 4)
        return self.encoded()

    def replace(self, at):
        old = self.members[at]
        new = self.member(old.group_instance_id or old.client_id)
        new.group_instance_id, new.assignment = old.group_instance_id, old.assignment
        self.members[at] = new

    def shuffle(self):
        rng = self.rng
        for _ in range(rng.randint(0, 2)):
            if self.members and rng.random() < 0.4:
                self.members.pop(rng.randrange(len(self.members)))
            else:
                self.members.append(self.member(f"s{rng.randrange(1000) if not self.odd else rng.randrange(6)}"))
        if self.members and rng.random() < 0.3:
            self.replace(rng.randrange(len(self.members)))
        if self.odd and self.members and rng.random() < 0.1:
            self.members.append(copy(rng.choice(self.members)))
        if rng.random() < 0.3:
            rng.shuffle(self.members)
        if self.members and rng.random() < 0.6:
            self.assign()

    def encoded(self):
        value = GroupMetadataValue(
            protocol_type="consumer" if self.consumer else "connect", generation=self.generation,
            protocol=self.rng.choice(ASSIGNORS[:2] if self.rng.random() < 0.8 else ASSIGNORS) if self.members else None,
            leader=self.members[0].member_id if self.members else None, members=self.members,
        )  # fmt: skip
        if self.version >= 2:
            value.current_state_timestamp = self.rng.choice([-1, 1_000_000 + self.generation * 1_000])
        for member in value.members:
            if self.version < 3:
                member.group_instance_id = None
        key = encode_record(Record(GroupMetadataKey(group=self.name), None))[0]
        return key, struct.pack(">h", self.version) + codec.encode(value, self.version)


def copy(member):
    return MemberMetadata(**{row[0]: getattr(member, row[0]) for row in MemberMetadata.FIELDS})


def commit(rng, group):
    topic, partition = rng.choice(TOPICS), rng.randrange(4)
    if rng.random() < 0.05:
        key = LegacyOffsetCommitKey(group=group, topic=topic, partition=partition)
        return encode_record(Record(key, LegacyOffsetCommitValue(offset=1)))
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    return encode_record(Record(key, None if rng.random() < 0.05 else OffsetCommitValue(offset=rng.randrange(99))))


def random_log(rng, *, records=150, groups=3, partitions=1, odd=False, holes=0.0):
    """A table of raw records. holes: the share of records that is missing."""
    tables = [_rows(rng, number, records, groups, odd=odd, holes=holes) for number in range(partitions)]
    return pa.Table.from_pylist([row for rows in tables for row in rows], schema=RAW)


def _rows(rng, partition, records, groups, *, odd, holes):
    names = ["g", "日本", "", "another"][:groups]
    chosen = {name: Group(name, rng, odd=odd) for name in names}
    now = 1_000_000
    rows = []
    for offset in range(records):
        now += rng.choice([0, 10, 500, 3_000, -200 if odd else 0])
        row = {
            "partition": partition, "offset": offset, "timestamp": now, "leader_epoch": offset // 50,
            "transactional": False, "control": False, "producer_id": -1, "producer_epoch": -1,
        }  # fmt: skip
        roll = rng.random()
        name = rng.choice(names)
        if roll < 0.4:
            row["key"], row["value"] = chosen[name].next()
        elif roll < 0.8:
            row["key"], row["value"] = commit(rng, name)
        elif roll < 0.9:
            row["key"], row["value"] = commit(rng, name)
            row["transactional"], row["producer_id"] = True, rng.randrange(3)
        elif roll < 0.97:
            row |= {"transactional": True, "control": True, "producer_id": rng.randrange(3)}
            row["marker"] = int(rng.random() < 0.7)
        elif odd:
            key, value = chosen[name].next()
            row["key"], row["value"] = key, rng.choice([b"", b"\0\x63", (value or b"123")[:-3], rng.randbytes(20)])
        else:
            row["key"] = rng.choice([None, b"", b"\0\x63unknown"])
        if rng.random() >= holes:
            rows.append(row)
    return rows
