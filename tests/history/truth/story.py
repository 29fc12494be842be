"""What was done to the clients of tests/data/offsets-log/plain, and whether that is what a verdict says.

A verdict is right if each member that it names did, according to the story, what the verdict says about it: the last
thing that was done to it before the rebalance, within the time that such a thing takes to show."""

import gzip
import json
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field

from tests.records.real_logs import DATA

#: The time after which the last heartbeats and the rebalance timeouts of this story have passed.
LATE_MS = 20_000
#: The longest time until clients look for new topics and partitions (topic.metadata.refresh.interval.ms).
REFRESH_MS = 310_000
DOWN = {"close", "sigkill", "removed", "unsubscribe", "raw_leave"}
CONSUMER_SESSION_MS = 45_000


@dataclass
class Life:
    """The client processes of one name, one after the other. events: (time in ms, what happened), in order."""

    group: str
    name: str
    instance: str | None
    events: list = field(default_factory=list)

    def before(self, ts):
        return self.events[: bisect_right(self.events, (ts, "~"))]


class Story:
    def __init__(self, lines=None):
        if lines is None:
            with gzip.open(DATA / "plain" / "story.jsonl.gz", "rt", encoding="utf-8") as file:
                lines = [json.loads(line) for line in file]
        self.lives = {}
        self.names = {}  # (group, member id or instance id) -> name
        self.topics = []  # (ts, action) of topics
        self.enforced = defaultdict(list)
        self.subscribed = defaultdict(list)
        for line in lines:
            self.line(line["ts"], line["action"], line.get("group"), line)
        for life in self.lives.values():
            life.events.sort(key=lambda each: each[0])

    def life(self, group, name, instance=None):
        life = self.lives.setdefault((group, name), Life(group, name, instance))
        if instance is not None:
            life.instance = instance
            self.names[group, instance] = name
        return life

    def line(self, ts, action, group, line):
        detail, name = line.get("detail") or {}, line.get("member")
        if action in {"create_topic", "create_partitions", "delete_topic"}:
            self.topics.append((ts, action))
        elif action == "admin_remove_members":
            for each in (*detail["instances"], *detail["member_ids"]):
                known = self.names.get((group, each))
                if known is not None:
                    self.life(group, known).events.append((ts, "removed"))
        elif action == "raw_leave":
            for each in detail["member_ids"]:
                self.life(group, each).events.append((ts, "raw_leave"))
                self.names[group, each] = each
        elif action == "raw_synced":
            for each in detail["members"]:
                life = self.life(group, each)
                self.names[group, each] = each
                if not life.events:
                    life.events.append((ts - LATE_MS, "raw_start"))
        elif name is None:
            if action == "sigkill":  # a JVM with all members of a group
                for life in self.lives.values():
                    if life.group == group:
                        life.events.append((ts, "sigkill"))
        elif action in {"start", "close", "sigkill", "unsubscribe"}:
            what = "left" if detail.get("op") == "LEAVE_GROUP" else action
            self.life(group, name, line.get("instance")).events.append((ts, what))
            if detail.get("member_id"):
                self.names[group, detail["member_id"]] = name
        elif action in {"subscribe", "enforce"}:
            (self.subscribed if action == "subscribe" else self.enforced)[group].append(ts)
        elif action == "fatal":
            self.life(group, name, line.get("instance")).events.append((ts, "fatal"))
        if detail.get("member_id") and name is not None:
            self.names[group, detail["member_id"]] = name

    def refreshed(self, ts):
        """Whether clients may have learned of changed topics or partitions at that time."""
        return any(ts - REFRESH_MS <= at <= ts for at, _ in self.topics)

    def of(self, group, who):
        """The life of a member in a verdict, None if it is not in the story."""
        for key in (who["seat"], who["member_id"]):
            name = self.names.get((group, key))
            if name is not None:
                return self.lives[group, name]
        # Client ids here end in the name; the story has no member id of a member without partitions.
        client_id = who["client_id"]
        return self.lives.get((group, client_id.removeprefix(f"{group}-"))) or self.lives.get(
            (group, client_id.rpartition("-")[2])
        )


def down(events):
    """(time in ms, what) stopped the last process, or None."""
    last = None
    for event in events:
        if event[1] in DOWN or event[1] == "left":
            last = event
    return last


def member_right(story, row, who):
    """Whether a member did what the verdict says; None if it is not in the story."""
    life = story.of(row["group_id"], who)
    if life is None or not life.events:
        return None
    ts, what = row["timestamp"], who["what"]
    events = life.before(ts)
    late = LATE_MS + (25_000 if row["group_type"] == "consumer" else 0)
    recent = {each[1] for each in events if ts - each[0] <= late}
    starts = [each for each in events if each[1] in {"start", "raw_start"}]
    match what:
        case "joined":
            return len(starts) == 1
        case "returned":
            return down(events) is not None and (len(starts) > 1 or "removed" in recent)
        case "leave":
            # A member that an admin removes by its member id leaves, as far as the log shows.
            return bool(recent & {"close", "unsubscribe", "raw_leave", "removed"}) and life.instance is None
        case "admin-removal":
            return "removed" in recent
        case "session-expiry":
            return bool(recent & {"sigkill", "fatal"}) or (life.instance is not None and "close" in recent)
        case "resubscribed":
            return bool(story.subscribed[row["group_id"]]) or story.refreshed(ts)
    return None


def right(story, row, previous):
    """Whether a verdict is right; None if the story does not show it."""
    ts, cause = row["timestamp"], row["cause"]
    since = previous["timestamp"] if previous is not None else 0
    match cause:
        case "partition-change" | "metadata-change":
            return story.refreshed(ts)
        case "cooperative-round":
            return ts - since <= LATE_MS and previous["joined"] + previous["left"] + previous["replaced"] > 0
        case "subscription-change" if not row["who"]:
            return story.refreshed(ts)
        case "rejoin":
            return any(since <= at <= ts for at in story.enforced[row["group_id"]])
        case "all-gone":
            members = [story.of(row["group_id"], each) for each in row["who"]]
            lives = [each for each in members if each is not None and each.events[0][1] != "raw_start"]
            return all(down(each.before(ts)) is not None for each in lives) if lives else None
    mine = {"join": "joined", "bounce": "returned", "subscription-change": "resubscribed"}.get(cause, cause)
    verdicts = [member_right(story, row, each) for each in row["who"] if each["what"] == mine]
    known = [each for each in verdicts if each is not None]
    return all(known) if known else None
