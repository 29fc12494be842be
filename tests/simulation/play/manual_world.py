"""A world in which the test plays the coordinator."""

from __future__ import annotations

from kgm.coordinator.contract.settings import BrokerSettings
from kgm.simulation.play.world import World


class ManualWorld(World):
    """Requests are recorded, and `answer` answers the last one."""

    def __init__(self, group):
        super().__init__(group, BrokerSettings(), "manual", heartbeat_interval_ms=3_000)
        self.sent = []

    def send(self, client, message, version, on_reply):
        self.sent.append((message, version, on_reply))

    def hand_in(self, request, at_ms):
        """Ignore it."""

    def until_sent(self, kind):
        """Let time pass until a request of this kind is sent."""
        while not self.sent or not isinstance(self.sent[-1][0], kind):
            self.run_next()
        return self.sent[-1]

    def answer(self, reply):
        _, _, on_reply = self.sent[-1]
        on_reply(reply)
