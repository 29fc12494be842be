"""Names that a table could hide, and findings that many groups share."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict

import pytest

from kgm.cli.commands import doctor
from kgm.cli.options.group_names import check_group_names
from kgm.cli.options.run_options import RunOptions
from kgm.cli.output.history.rows_json import _who_json
from kgm.cli.output.history.words import causes_text, who_text
from kgm.cli.output.object_cells import separated
from kgm.cli.output.output_options import OutputOptions
from kgm.cli.output.report import Column, Report, Table, rendered
from kgm.client.transport.bootstrap import parse_bootstrap
from kgm.history.row_parts import CauseCount, Who
from kgm.model.errors import UsageError
from kgm.operations.doctor.diagnosis import Diagnosis
from kgm.operations.doctor.findings import Finding, Severity
from kgm.operations.groups.selection import select_groups

UUID = "1b4e28ba-2fa1-11d2-883f-0016d3cca42"


def shown(table):
    return rendered(Report(schema="x", data={}, tables=[table]), OutputOptions())


@pytest.mark.parametrize("others", [[], ["é"]], ids=["ASCII", "other characters"])
def test_a_blank_name_can_be_seen(others):
    names = ("  ", "\t", "a", "a ", *others)
    table = Table(columns=[Column(title="GROUP")], rows=[[name] for name in names])
    assert shown(table).splitlines()[1:5] == ["'  '", "'\\t'", "a", "'a '"]
    assert next(separated([{"group_id": names[0]}], ["group_id"], ",", headers=False)) == "  \n"


def test_a_blank_name_can_be_addressed():
    check_group_names({"groups": ["a"], "group": [" "]})
    check_group_names({"group": None, "group_option": " "})
    for values in ({"groups": [" "]}, {"group": " ", "group_option": None}, {"group_option": ""}, {"group": [""]}):
        with pytest.raises(UsageError, match="empty") as refused:
            check_group_names(values)
        assert "-g ' '" in refused.value.hint

    class Cluster:
        def list_groups(self):
            return type(
                "Listing", (), {"groups": [type("Row", (), {"group_id": name})() for name in (" ", "a")], "errors": ()}
            )

        def can_list_all(self, *, sees_some):
            return sees_some

    assert select_groups(Cluster(), [], "[ ]").group_ids == (" ",)


def test_lists_are_whole_in_csv():
    """And begin with no sign that a spreadsheet takes for a formula."""
    names = [f"app-{UUID}{number}" for number in range(7)]
    who = [Who(seat=name, what="session-expiry", member_id=None, client_id=None, client_host=None) for name in names]
    causes = [CauseCount(cause=name, count=1) for name in ("join", "leave", "removal", "max-poll")]
    item = {"who": _who_json(who), "causes": [asdict(one) for one in causes]}
    assert [*separated([item, {"who": [], "causes": []}], ["who", "causes"], "\t", headers=False)] == [
        "; ".join(f"{name}: session expiry" for name in names) + "\t1 join, 1 leave, 1 removal, 1 max poll\n", "\t\n",
    ]  # fmt: skip
    assert who_text(who).endswith(" and 3 more")
    assert causes_text(causes) == "1 join, 1 leave, 1 removal, 1 more"


@pytest.mark.parametrize("text", ["a:1;b:2", "a:1 b:2", "a;b"])
def test_servers_are_separated_by_commas(text):
    with pytest.raises(UsageError, match="separated by commas"):
        parse_bootstrap(text)


def finding(group, severity=Severity.INFO, message="the group uses the classic protocol", **more):
    return Finding(group_id=group, check="classic-protocol", severity=severity, message=message,
                   evidence=("assignor: range",), next_command=f"kgm simulate-bounce {group}", **more)  # fmt: skip


def diagnosis_of(findings):
    return Diagnosis(group_ids=(), findings=tuple(findings), skipped=(), errors=(), window_ms=0, history=None)


def table_of(findings):
    return doctor._table(diagnosis_of(findings))


def test_what_is_worth_knowing_of_many_groups_is_said_once():
    rows = table_of([finding(f"g-{number}") for number in range(7)]).rows
    assert rows == [
        ["info", "7 groups", "classic-protocol", "the group uses the classic protocol"],
        ["", "", "", "  g-0, g-1, g-2, g-3, g-4 and 2 more"],
        ["", "", "", "  -> kgm simulate-bounce g-0"],
    ]


def test_warnings_and_what_differs_are_said_of_each_group():
    warnings = [finding(f"g-{number}", Severity.WARNING) for number in range(4)]
    others = [finding(f"h-{number}", message=f"another {number}") for number in range(4)]
    named = [row[1] for row in table_of([*warnings, *others]).rows if row[1]]
    assert named == ["g-0", "g-1", "g-2", "g-3", "h-0", "h-1", "h-2", "h-3"]


def test_programs_get_every_finding_and_all_that_it_is_about(capsys):
    ids = tuple(f"orders-{number}" for number in range(9))
    doctor._emit(
        diagnosis_of([finding(f"g-{number}", about=ids) for number in range(4)]), {}, None, RunOptions(output="csv")
    )
    rows = [*csv.DictReader(io.StringIO(capsys.readouterr().out))]
    assert [row["group_id"] for row in rows] == ["g-0", "g-1", "g-2", "g-3"]
    assert {row["about"] for row in rows} == {",".join(ids)}
