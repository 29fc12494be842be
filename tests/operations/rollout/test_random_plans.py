"""A few random plans: kgm carries them out on a real Kafka, and each step is as predicted. `--seed` draws others;
`bench/rollouts.py` plays more of them."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.rollouts import PARTITIONS, SESSION_MS, RandomPlan, carry_out
from tests.kafka.broker import KafkaCluster
from tests.selection import first_seed

PLANS = 3


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.scenes
@pytest.mark.long
@pytest.mark.timeout(600)
def test_random_plans_are_carried_out_as_predicted(tmp_path):
    chance = random.Random(first_seed())
    plans = [RandomPlan.draw(number, chance) for number in range(PLANS)]
    folders = [tmp_path / str(plan.number) for plan in plans]
    for folder in folders:
        folder.mkdir()
    with (
        KafkaCluster(properties={"group.consumer.session.timeout.ms": str(SESSION_MS)}) as kafka,
        ThreadPoolExecutor(PLANS) as pool,
    ):
        kafka.create_topics({f"orders-{count}": count for count in PARTITIONS})
        results = list(pool.map(carry_out, plans, [kafka] * PLANS, folders))
    stopped = [
        f"{plan}: {why or 'the consumers say otherwise'}"
        for plan, (code, why, agrees) in zip(plans, results, strict=True)
        if code or not agrees
    ]
    assert stopped == []
