"""The way an operator scales out with `kgm serve`: set a target size, then start the new members."""

import signal

import pytest

from tests.cli.commands.test_serve import Served
from tests.kafka.members import RdMembers, wait_settled
from tests.waiting import stays, until

MOVES = ("revoked", "lost", "assigned")


@pytest.mark.slow
def test_a_target_size_set_over_a_restart_makes_a_scale_out_cost_one_rebalance(tmp_path):
    serve = ["--topic", "t:14", "--data-dir", str(tmp_path), "--set", "group.initial.rebalance.delay.ms=0"]
    options = {"group": "g", "topics": ["t"], "assignor": "range", "session_timeout_ms": 30_000}
    with Served("--listen", "127.0.0.1:0", *serve) as first:
        host, port = first.address
        members = RdMembers(f"{host}:{port}")
        with members:
            old = [members.start(instance_id=name, **options) for name in "abcd"]
            wait_settled(old, 14, timeout_s=60)
            until(lambda: {len(member.assignment) for member in old} == {3, 4}, "the four do not share evenly")
            assert first.end(signal.SIGTERM)[0] == 0
            with Served("--listen", f"{host}:{port}", *serve, "--set", "kgm.group.target.size.g=7"):
                seen = [len(member.events) for member in old]
                new = [members.start(instance_id=name, **options) for name in ("n1", "n2")]

                def nothing_moves(seen=seen, new=new):
                    happened = [event.kind for member, n in zip(old, seen, strict=True) for event in member.events[n:]]
                    return not set(happened) & set(MOVES) and not any(one.of_kind("assigned", "fatal") for one in new)

                stays(nothing_moves, "a rebalance before all are there", 3)
                new.append(members.start(instance_id="n3", **options))
                wait_settled([*old, *new], 14, timeout_s=60)
                for member, n in zip(old, seen, strict=True):
                    kinds = [event.kind for event in member.events[n:] if event.kind in MOVES]
                    assert kinds == ["revoked", "assigned"]
                assert [len(member.of_kind("assigned")) for member in new] == [1, 1, 1]
