"""The causes of histories that kgm's own coordinator wrote, against what was done to the clients."""

from collections import defaultdict

import pytest

from kgm.history.derive import derive
from tests.history.truth.consumer_lives import ConsumerWorld
from tests.history.truth.lives import World
from tests.history.truth.scores import Scores
from tests.selection import first_seed, sized

FIRST, LIVES = first_seed(), sized(5, 30)


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize("world", [World, ConsumerWorld], ids=["classic", "consumer"])
def test_causes_of_generated_histories(world):
    scores, wrong, sizes = Scores(), [], defaultdict(int)
    for seed in range(FIRST, FIRST + LIVES):
        raw, steps = world(seed).play(8)
        tables = derive(raw).tables
        rows = tables["gold_rebalance"].to_pylist() + [
            row | {"cause": row["event"]} for row in tables["gold_event"].to_pylist()
        ]
        for row in rows:
            if row["cause"] in {"away", "group-removed"}:
                continue  # what happened is not explained by them
            # A step begins where the one before it ends, with its action.
            step = next(step for step in reversed(steps) if step.since <= row["timestamp"])
            right = row["cause"] in step.allowed
            scores.verdict(row["cause"], row["confidence"], right)
            sizes[row["cause"]] += 1
            if not right and row["confidence"] in {"certain", "likely"}:
                wrong.append((seed, row["cause"], row["confidence"], sorted(step.allowed), row["evidence"]))
    print(scores.table())
    for each in wrong[:40]:
        print(each)
    scores.check()
    assert scores.share("certain") >= 0.99
    assert scores.share("likely") >= 0.95
    assert len(sizes) > 7
