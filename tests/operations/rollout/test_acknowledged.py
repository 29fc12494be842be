"""What an operator acknowledges by resuming a rollout: what kgm has seen and reported, and nothing that it could not see. What
was acknowledged is named and counted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from kgm.model.errors import ErrorCode
from kgm.operations.rollout.journal import JournalKind, read_journal
from kgm.protocol.apis import ApiKey
from kgm.protocol.subscription import MemberAssignment, encode_assignment
from tests.client.faults import Edit
from tests.operations.rollout.test_kills import LINES, killed_at
from tests.operations.rollout.test_signals import FLAGS, remove
from tests.operations.rollout.units import JoinedUnits, kgm
from tests.waiting import until

pytestmark = pytest.mark.slow
#: The lines of the journal at which kgm is killed, counted from 1.
PLANNED, COMMAND_ENDED, STEP_ENDED = (LINES.index(kind) + 1 for kind in ("plan", "command-end", "step-end"))
B_RESTARTED = "b, which is not part of the step, has been restarted, or joined again by itself"


@pytest.fixture
def units(server, group, tmp_path):
    with JoinedUnits(server.bootstrap, tmp_path, {"group": group, "topic": "orders"}) as joined:
        joined.form(server, ["a", "b"])
        yield joined


@pytest.fixture
def resume(units, tmp_path):
    def resume(bootstrap=units.bootstrap):
        return kgm(tmp_path, bootstrap, "rollout", "--yes", "--resume", str(tmp_path / "j.ndjson"), "-o", "ndjson")

    return resume


def rollout_of(units, *names):
    members = [word for name in names for word in ("-i", name)]
    command = f"{units.command} restart {{instance_id}}"
    return [
        "rollout", "--yes", units.group, *members, "--exec", command, "--journal", str(units.folder / "j.ndjson"),
        *FLAGS,
    ]  # fmt: skip


def restart(units, name):
    units.stop(name)
    units.members[name] = units.start(name)
    return 0


def refuse_descriptions(proxy):
    def refuse(answer):
        for one in answer.groups:
            one.error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED

    proxy.always(ApiKey.DESCRIBE_GROUPS, Edit(refuse))


@pytest.mark.long
def test_a_resume_that_could_not_look_acknowledges_nothing_in_a_step(units, proxy, resume, tmp_path):
    units.faults["a"] = lambda units, name: restart(units, "b") or restart(units, name)
    killed_at(units, tmp_path, COMMAND_ENDED, "after", rollout_of(units, "a", "b"))
    refuse_descriptions(proxy)
    blind = resume(proxy.bootstrap)
    assert (blind.code, "cannot be described" in blind.err) == (7, True), str(blind)
    looked = resume()
    assert (looked.code, units.calls) == (8, [("restart", "a")]), str(looked)
    assert B_RESTARTED in looked.err


@pytest.mark.few(1)
@pytest.mark.parametrize(("line", "calls"), [(PLANNED, []), (STEP_ENDED, [("restart", "a")])])
def test_a_resume_that_could_not_look_acknowledges_nothing_before_a_step(units, proxy, resume, tmp_path, line, calls):
    killed_at(units, tmp_path, line, "after", rollout_of(units, "a", "b"))
    restart(units, "b")
    refuse_descriptions(proxy)
    assert resume(proxy.bootstrap).code in (4, 7)
    looked = resume()
    assert (looked.code, units.calls) == (8 if calls else 6, calls), str(looked)
    assert f"before step {len(calls) + 1} began: b has been restarted" in looked.err


def test_another_member_that_is_restarted_before_the_resume_is_named(units, resume, tmp_path):
    """That it was restarted costs no rebalance, so no count shows it. It stays a deviation if kgm is killed after that."""
    units.faults["a"] = lambda _units, _name: 3
    assert kgm(tmp_path, units.bootstrap, *rollout_of(units, "a")).code == 7
    restart(units, "b")
    words = ["rollout", "--yes", "--resume", str(tmp_path / "j.ndjson")]
    killed_at(units, tmp_path, 2, "after", words)  # its first line is `resume`
    assert read_journal(tmp_path / "j.ndjson")[-1].kind == JournalKind.ACKNOWLEDGED
    done = resume()
    assert done.code == 0, str(done)
    (last,) = done.of_kind("done")
    assert last["text"] == "1 step done, not as predicted in step 1: 0 rebalances, 0 handovers"
    assert last["as_predicted"] is False


def test_what_resuming_acknowledges_is_said(units, resume, tmp_path):
    units.faults["a"] = lambda _units, _name: 3
    assert kgm(tmp_path, units.bootstrap, *rollout_of(units, "a")).code == 7
    restart(units, "b")
    done = resume()
    notes = [event["text"] for event in done.of_kind("note")]
    assert f"resuming acknowledges what has happened in the step: 0 rebalances, 0 handovers; {B_RESTARTED}" in notes
    assert (done.code, done.of_kind("done")[0]["as_predicted"]) == (0, False)


def assign(units, owned):
    """The leader `a` joins again, and assigns these partitions by instance id."""
    leader = units.members["a"]
    leader.join()
    ids = units.member_ids()
    blobs = {
        ids[name]: encode_assignment(MemberAssignment(partitions={"orders": some})) for name, some in owned.items()
    }
    assert leader.sync(blobs).error_code == 0


def remove_and_join_again(units, server):
    """`b` is removed, which gives its partitions to `a`, and joins again, which gives them back."""
    remove(units, "b")
    assign(units, {"a": [0, 1, 2, 3, 4, 5]})
    with ThreadPoolExecutor(1) as pool:
        joining = pool.submit(units.start, "b")
        until(lambda: server.inspect(lambda view: len(view.group(units.group).members) == 2), "b does not join", 60)
        assign(units, {"a": [0, 1, 2], "b": [3, 4, 5]})
        units.members["b"] = joining.result(60)


def test_what_happened_between_two_steps_is_in_the_total(units, server, resume, tmp_path):
    """Two rebalances, by the generation, in which three partitions go to another owner, and back."""
    killed_at(units, tmp_path, STEP_ENDED, "after", rollout_of(units, "a", "b"))
    before = units.generation()
    remove_and_join_again(units, server)
    rebalances = units.generation() - before
    assert rebalances == 2
    ended = resume()
    assert (ended.code, f"generation {before} -> {before + 2}" in ended.err) == (8, True), str(ended)
    killed_at(
        units, tmp_path, 2, "after", ["rollout", "--yes", "--resume", str(tmp_path / "j.ndjson")]
    )  # its first line is `resume`
    assert read_journal(tmp_path / "j.ndjson")[-1].kind == JournalKind.STEP_BEGIN
    done = resume()
    assert (done.code, units.calls) == (0, [("restart", "a"), ("restart", "b")]), str(done)
    (last,) = done.of_kind("done")
    assert last["text"] == "2 steps done, not as predicted before step 2: 2 rebalances, 6 handovers"
    assert (last["observed"]["rebalances"], last["observed"]["handovers"], last["as_predicted"]) == (2, 6, False)
