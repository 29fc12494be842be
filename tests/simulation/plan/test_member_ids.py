import random

from kgm.simulation.plan.member_ids import new_classic_member_id


def test_member_ids_look_like_those_of_a_broker():
    chance = random.Random(3)
    made = new_classic_member_id("app", chance)
    assert made.startswith("app-")
    assert len(made) == len("app-") + 36
    assert made != new_classic_member_id("app", chance)
