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
        (one(assignor=1), "Expected `str | null`, got `int` - at `$.assignor`"),
        (one(topics={}), "Expected `array`, got `object` - at `$.topics`"),
        (one(members=None), "Expected `array`, got `null` - at `$.members`"),
        (one(members=["m"]), "Expected `object`, got `str` - at `$.members[0]`"),
        (topic(name=None), "Expected `str`, got `null` - at `$.topics[0].name`"),
        (topic(partitions=True), "Expected `int`, got `bool` - at `$.topics[0].partitions`"),
        (topic(partitions=-1), "Expected `int` >= 0 - at `$.topics[0].partitions`"),
        (topic(racks=["a"]), "Expected `array`, got `str` - at `$.topics[0].racks[0]`"),
        (member(member_id=None), "Expected `str`, got `null` - at `$.members[0].member_id`"),
        (member(topics=None), "Expected `array`, got `null` - at `$.members[0].topics`"),
        (member(topics=[1]), "Expected `str`, got `int` - at `$.members[0].topics[0]`"),
        (member(owned=[]), "Expected `object | null`, got `array` - at `$.members[0].owned`"),
        (member(owned={"t": 1}), "Expected `array`, got `int` - at `$.members[0].owned[...]`"),
        (member(owned={"t": [-1]}), "Expected `int` >= 0 - at `$.members[0].owned[...][0]`"),
        (member(generation="1"), "Expected `int | null`, got `str` - at `$.members[0].generation`"),
        (member(rack=1), "Expected `str | null`, got `int` - at `$.members[0].rack`"),
        (member(group_instance_id=1), "Expected `str | null`, got `int` - at `$.members[0].group_instance_id`"),
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
