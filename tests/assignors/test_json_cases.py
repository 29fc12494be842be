"""Groups written as JSON: what is read, and how a mistake is named."""

import pytest

from kgm.assignors.json_cases import cases_from_json
from kgm.model.errors import UsageError


def one(**changes):
    return {
        "assignor": "range",
        "topics": [{"name": "t", "partitions": 2, "racks": [["a", None], []]}],
        "members": [{"member_id": "m", "topics": ["t", "t"]}],
        **changes,
    }


def test_a_case():
    [case] = cases_from_json(one(case=7, anything="else"))
    assert (case.case, case.assignor) == (7, "range")
    [member], [topic] = case.group.members, case.group.topics
    assert (member.topics, member.owned, member.generation, member.rack) == (("t",), {}, None, None)
    assert topic.racks == (("a",), ())


def test_another_assignor_than_the_one_written_down():
    [case] = cases_from_json({**one(), "assignor": None}, "sticky")
    assert case.assignor == "sticky"


def member(**changes):
    return one(members=[{"member_id": "m", "topics": ["t"], **changes}])


def topic(**changes):
    return one(topics=[{"name": "t", "partitions": 1, **changes}])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "not a JSON object"),
        (one(assignor=None), "assignor is missing"),
        (one(assignor=1), "assignor is not a text"),
        (one(topics={}), "topics is not a list"),
        (one(members=None), "members is missing"),
        (one(members=["m"]), "members[0] is not a JSON object"),
        (topic(name=None), "topics[0].name is missing"),
        (topic(partitions=True), "topics[0].partitions is not a number from 0 on"),
        (topic(partitions=-1), "topics[0].partitions is not a number from 0 on"),
        (topic(racks=["a"]), "topics[0].racks is not a list of lists"),
        (member(member_id=None), "members[0].member_id is missing"),
        (member(topics=None), "members[0].topics is missing"),
        (member(topics=[1]), "members[0].topics is not a list of names"),
        (member(owned=[]), "members[0].owned is not a JSON object"),
        (member(owned={"t": 1}), "members[0].owned.t is not a list of partitions"),
        (member(owned={"t": [-1]}), "members[0].owned.t is not a list of partitions"),
        (member(generation="1"), "members[0].generation is not a number"),
        (member(rack=1), "members[0].rack is not a text"),
        (member(group_instance_id=1), "members[0].group_instance_id is not a text"),
    ],
)
def test_mistakes_are_named(data, message):
    with pytest.raises(UsageError) as caught:
        cases_from_json(data)
    assert caught.value.message.startswith(message)


def described(**changes):
    return {
        "group_id": "g",
        "type": "classic",
        "state": "Stable",
        "assignor": "sticky",
        "generation": 3,
        "topics": [{"name": "t", "partitions": 2}, {"name": "t2", "partitions": 1}],
        "members": [
            {"member_id": "m", "subscription": {"topics": ["t", "gone"], "regex": None}, "assignment": {"t": [1]}},
        ],
        **changes,
    }


def test_a_described_group():
    [case] = cases_from_json({"schema": "kgm.describe/v1", "data": {"groups": [described()]}})
    [member] = case.group.members
    assert (case.case, case.assignor) == ("g", "sticky")
    assert (member.topics, member.owned, member.generation) == (("t",), {"t": (1,)}, 3)


def test_a_described_consumer_group():
    """The server's assignor, the target assignment, and a regular expression that is not resolved yet."""
    member = {
        "member_id": "m", "subscription": {"topics": [], "regex": "t."}, "assignment": {},
        "target_assignment": {"t2": [0]},
    }  # fmt: skip
    [case] = cases_from_json(described(type="consumer", assignor="uniform", members=[member]))
    assert case.assignor == "consumer-uniform"
    assert case.group.members[0].topics == ("t2",)
    assert case.group.members[0].owned == {"t2": (0,)}


def test_a_described_group_that_cannot_be_assigned():
    with pytest.raises(UsageError, match="group g has no assignor"):
        cases_from_json(described(assignor=None))
    with pytest.raises(UsageError, match="1000000000 partitions, more than 200000"):
        cases_from_json(described(topics=[{"name": "t", "partitions": 1_000_000_000}]))
    look_ahead = {"member_id": "m", "subscription": {"topics": [], "regex": "(?=t).*"}, "assignment": {}}
    with pytest.raises(UsageError, match="which is not a valid regular expression"):
        cases_from_json(described(members=[look_ahead]))
    member = {"member_id": "m", "subscription": {"topics": [], "regex": "("}, "assignment": {}}
    with pytest.raises(UsageError, match="member m subscribes to"):
        cases_from_json(described(members=[member]))
