"""Like `lives`, with groups of the consumer protocol (KIP-848), whose session timeout is in no record."""

from kgm.model.errors import ErrorCode as E
from tests.coordinator.consumer.harness import REBALANCE_MS, Consumers
from tests.history.truth.lives import GROUP, TICK_MS, Client, Stamped, World


class ConsumerLog(Stamped, Consumers):
    """A coordinator of consumer groups. sender: the client id of the next request."""

    sender = "client"

    def send(self, message, version, **more):
        return super().send(message, version, **{"client_id": self.sender, **more})


class ConsumerClient(Client):
    """One process. It immediately gives up what it must, and reports that with its next heartbeat."""

    def start(self):
        self.world.starts += 1
        self.member_id, self.generation, self.owned = f"{self.name}-{self.world.starts}", 0, {}
        self.join()

    def join(self):
        self.phase = "in"
        self._beat(0, names=self.topics)

    def subscribe(self, topics):
        self.topics = topics
        self._beat(self.generation, names=topics)

    def close(self, leaves=None):
        self.commit()
        if self.phase != "down":
            leaves = self.instance is None if leaves is None else leaves
            if leaves or self.instance is not None:
                self.world.log.beat(self.member_id, -1 if leaves else -2, group=GROUP, instance=self.instance)
        self.crash()

    def tick(self):
        if self.phase == "in":
            self.live()

    def live(self):
        now = self.world.log.now
        if now >= self.beat_at:
            self._beat(self.generation)
        if now >= self.commit_at:
            self.commit_at = now + self.world.cadence
            self.commit()

    def _beat(self, epoch, **more):
        log = self.world.log
        log.sender = self.name
        if epoch == 0:
            more["rebalance_timeout_ms"] = REBALANCE_MS
        reply = log.beat(self.member_id, epoch, group=GROUP, instance=self.instance, **more)
        match reply.error_code:
            case E.NONE:
                self._answered(reply)
            case E.UNKNOWN_MEMBER_ID | E.FENCED_MEMBER_EPOCH:
                self.generation, self.owned = 0, {}
                self.join()
            case E.UNRELEASED_INSTANCE_ID:
                self.beat_at = log.now + 1_000
            case _:
                self.phase = "down"

    def _answered(self, reply):
        log = self.world.log
        self.generation, self.beat_at = reply.member_epoch, log.now + reply.heartbeat_interval_ms
        if reply.assignment is not None:
            self.commit()
            names = {log.id_of(name): name for name in self.world.partitions}
            self.owned = {names[each.topic_id]: list(each.partitions) for each in reply.assignment.topic_partitions}
            again = log.beat(self.member_id, self.generation, group=GROUP, instance=self.instance, owned=self.owned)
            if again.error_code == E.NONE:
                self._answered(again)


class ConsumerWorld(World):
    """One group. The session timeout is drawn for each; about half of the others have Kafka's default."""

    name = "consumer lives"
    client = ConsumerClient

    def __init__(self, seed):
        super().__init__(seed)
        self.starts, self.cooperative = 0, False

    def new_log(self):
        self.session = self.draw.choice([6_000, 10_000, 15_000, 30_000, 45_000, 45_000, 60_000])
        self.heartbeat = 5_000
        return ConsumerLog(
            topics=dict(self.partitions),
            group_consumer_session_timeout_ms=self.session,
            group_consumer_min_session_timeout_ms=6_000,
        )

    def run_until_stable(self):
        self.run(self.session + 2 * self.heartbeat + 4_000 + self.draw.randrange(2, 6) * self.cadence)

    def add(self):
        # The first member of a group, or one that subscribes to a new topic.
        return super().add() | ({"metadata-change"} if not self.steps else set())

    def bounce(self):
        """Another process takes the place of a static member only after a clean stop (KIP-848)."""
        client = self._one()
        if client is None:
            return None
        client.close()
        self.run(self.draw.randrange(1, max((self.session - self.heartbeat) // TICK_MS, 2)) * TICK_MS)
        client.start()
        return {"absorbed-bounce"} if client.instance is not None else {"bounce", "leave", "all-gone", "join"}

    def rejoin(self):
        return None

    def grow(self):
        self.partitions["orders"] += self.draw.randrange(1, 3)
        self.log.topics(self.partitions)
        return {"partition-change", "metadata-change"}
