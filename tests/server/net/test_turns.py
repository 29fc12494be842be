"""Who is served next, on a clock of its own: nobody waits for others who ask for more."""

import asyncio
import time
from collections import Counter

import pytest

from kgm.server.net.turns import Turns


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


class Client:
    """Has requests that each take so long, one in each turn."""

    def __init__(self, turns, clock, name, cost_s, requests, served):
        self.turns, self.clock, self.name, self.takes_s, self.left, self.served = (
            turns, clock, name, cost_s, requests, served,
        )  # fmt: skip
        self.spent_s = self.cost_s = 0.0
        self.waits_for_turn = False

    def arrive(self, requests=1):
        self.left += requests
        self.turns.run_all([self])

    def serve(self):
        self.clock.now_s += self.takes_s
        self.served.append(self.name)
        self.left -= 1
        if self.left:
            self.turns.queue(self)


@pytest.fixture
def play():
    def play(costs_s, scenario, rounds=2_000):
        clock, served = Clock(), []
        turns = Turns(0.004, clock)
        clients = {name: Client(turns, clock, name, cost_s, 0, served) for name, cost_s in costs_s.items()}

        async def run():
            for _ in range(rounds):
                scenario(clients, clock, served)
                await asyncio.sleep(0)

        asyncio.run(run())
        return served

    return play


FLOODERS = [f"flooder-{number}" for number in range(20)]


@pytest.mark.parametrize("heavy_s", [0.001, 0.05])
def test_a_client_with_one_request_at_a_time_waits_for_one_or_two_others(play, heavy_s):
    waits = []
    asked = None

    def scenario(clients, clock, served):
        nonlocal asked
        light = clients["light"]
        for name in FLOODERS:
            if clients[name].left < 10:
                clients[name].arrive(100)
        if asked is not None and not light.left:
            waits.append(clock.now_s - asked)
            asked = None
        if asked is None and len(served) > 100:
            asked = clock.now_s
            light.arrive()

    served = play({**dict.fromkeys(FLOODERS, heavy_s), "light": 0.0001}, scenario)
    assert len(waits) > 50
    # A turn of 4 ms, and the request of a flooder that is being served when it ends.
    assert max(waits) <= 2 * (0.004 + heavy_s) + 0.001
    assert max(Counter(served[-2_000:]).values()) < 2_000 / 2


def test_time_is_shared_and_not_the_number_of_requests(play):
    spent = Counter()

    def scenario(clients, clock, served):
        for client in clients.values():
            if client.left < 10:
                client.arrive(50)

    costs = {"cheap": 0.001, "dear": 0.009}
    for name in play(costs, scenario):
        spent[name] += costs[name]
    assert abs(spent["cheap"] - spent["dear"]) < 0.1 * spent["dear"]


def test_silence_saves_nothing_up(play):
    """Who comes late shares the time from then on, and does not get what others had before."""

    def scenario(clients, clock, served):
        if clients["early"].left < 10:
            clients["early"].arrive(50)
        if clock.now_s > 1 and clients["late"].left < 10:
            clients["late"].arrive(50)

    served = play(dict.fromkeys(("early", "late"), 0.002), scenario)
    first = served.index("late")
    counts = Counter(served[first : first + 100])
    assert abs(counts["early"] - counts["late"]) <= 4


def test_time_that_other_processes_take_is_on_nobodys_account():
    """Sleeping stands for it: the thread does not run."""

    class Sleeper(Client):
        def serve(self):
            time.sleep(0.05)
            super().serve()

    turns = Turns(0.004)
    served = []
    sleeper, other = (kind(turns, Clock(), kind.__name__, 0, 1, served) for kind in (Sleeper, Client))
    turns.run_all([sleeper, other])
    assert sleeper.spent_s < 0.02
    assert served == ["Sleeper", "Client"]


def test_what_the_loop_can_keep_up_with_is_served_at_once(play):
    def scenario(clients, clock, served):
        before = len(served)
        for client in clients.values():
            client.arrive()
        assert len(served) == before + 2

    play({"a": 0.0001, "b": 0.0001}, scenario, rounds=10)


def test_who_comes_when_the_turn_is_over_waits(play):
    clock, served = Clock(), []
    turns = Turns(0.004, clock)
    clients = [Client(turns, clock, number, 0.003, 1, served) for number in range(4)]

    async def run():
        turns.run_all(clients)
        assert served == [0, 1]
        assert [client.waits_for_turn for client in clients] == [False, False, True, True]
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(run())
    assert served == [0, 1, 2, 3]
