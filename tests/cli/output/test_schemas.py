"""The schemas of version 1 only grow. That real output matches its schema is checked in test_every_command."""

import copy

import pytest

from kgm.cli.output.schema import contracts, schema_of, translated
from tools.schemas import broken, present, promised


def test_nothing_published_is_removed():
    assert list(broken(promised(), present(), "")) == []


def test_every_schema_is_published():
    assert promised() == present(), "run: python tools/schemas.py"


@pytest.mark.parametrize(
    "harm",
    [
        lambda schema: schema["properties"]["data"]["anyOf"][0]["properties"]["groups"]["items"]["properties"].pop(
            "state"
        ),
        lambda schema: schema["properties"]["data"]["anyOf"][0]["properties"]["groups"]["items"]["required"].remove(
            "state"
        ),
        lambda schema: schema["properties"]["data"]["anyOf"][0]["properties"]["groups"]["items"]["properties"].update(
            state={"type": "integer"}
        ),
        lambda schema: schema["properties"]["data"]["anyOf"][0]["properties"]["groups"]["items"]["properties"]["type"][
            "enum"
        ].remove("share"),
        lambda schema: schema["properties"]["cluster"]["anyOf"].pop(),
        lambda schema: schema.update(properties={}),
    ],
)
def test_removals_are_detected(harm):
    new = copy.deepcopy(present())
    harm(new["describe"])
    assert list(broken(present(), new, ""))


def test_additions_are_allowed():
    new = copy.deepcopy(present())
    new["describe"]["properties"]["more"] = {"type": "string"}
    new["another"] = {}
    assert list(broken(present(), new, "")) == []


@pytest.mark.parametrize(
    ("form", "right", "wrong"),
    [
        ("str?", [None, ""], [1]), ("int", [0, -1], [None, "", 0.5, True]), ("float?", [0.5, 1, None], ["1"]), ("bool", [True], [1, None]),
        ("=a|b", ["a"], ["c", None]), ("=a|b?", ["a", None], ["c"]), (["int"], [[], [1]], [[None], {}]),
        ({"*": ["int"]}, [{}, {"x": [1]}], [{"x": 1}]), ({"a": "int", "b?": "str"}, [{"a": 1}, {"a": 1, "b": "", "c": 2}], [{}, {"a": 1, "b": 1}]),
        (({"a": "int"}, None), [None, {"a": 1}], [1, {}]), ("any", [None, 1, {}], []),
    ],
)  # fmt: skip
def test_the_forms_of_contracts(form, right, wrong):
    import jsonschema

    check = jsonschema.Draft202012Validator(translated(form))
    assert [value for value in right if not check.is_valid(value)] == []
    assert [value for value in wrong if check.is_valid(value)] == []


def test_a_command_that_failed_has_no_data():
    import jsonschema

    document = {"schema": "kgm.list/v1", "cluster": None, "generated_at": "", "data": {}, "errors": [], "warnings": []}
    jsonschema.validate(document, schema_of("list"))
    assert schema_of("nosuch") is None
    assert all(name == name.lower() for name in contracts())
