"""Journals that kgm takes up, and those that it refuses: a journal says which commands run."""

from __future__ import annotations

import contextlib
import copy
import errno
import json
import os
import random
import resource
import shutil
import stat
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kgm.cli.main import run
from kgm.cli.options.run_options import RunOptions
from kgm.cli.output.rollout_report import RolloutPrinter
from kgm.model.errors import PartialError, RefusedError, UsageError
from kgm.operations.audit.audit_log import AuditLog
from kgm.operations.rollout.journal import JournalKind, RolloutJournal, read_journal
from kgm.operations.rollout.session import ResumeChanges, open_journal
from kgm.operations.rollout.spec import RolloutCommands
from tests import KGM
from tests.cli.environment import bare
from tests.cli.runner import kgm
from tests.client.joiners import form_group

FLAGS = ("--settle", "0s", "--interval", "100ms", "--restart-time", "200ms", "--step-timeout", "1s", "--draws", "2")
NAMES = ("a", "b", "c")


@pytest.fixture(scope="module")
def stopped(server, tmp_path_factory):
    """A rollout whose first command has failed: its journal, and the state folder of the run. Copy them."""
    folder = tmp_path_factory.mktemp("stopped")
    members = form_group(server, "journals", NAMES, "orders")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        words = [
            "rollout",
            "--yes",
            "journals",
            "-b",
            server.bootstrap,
            "--all",
            "--rolling",
            "--accept-unseen",
            "--exec",
            "false",
        ]
        assert run([*words, "--journal", str(folder / "j.ndjson"), *FLAGS]) == 7
    yield folder
    for member in members:
        member.close()


@pytest.fixture
def journal(stopped, tmp_path, monkeypatch):
    """A copy of the journal, which the next run of kgm may take up."""
    shutil.copytree(stopped / "state", tmp_path / "state")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return shutil.copy(stopped / "j.ndjson", tmp_path / "j.ndjson")


@pytest.fixture
def resume(journal, server, capsys):
    """Resume it: (exit code, stderr)."""

    def resume(*words, path=journal):
        code = run(["rollout", "--yes", "--resume", str(path), "-b", server.bootstrap, *words])
        return code, capsys.readouterr().err

    return resume


def changed(journal, change):
    """The first line with `change` applied to its JSON."""
    first, *rest = journal.read_text().splitlines(keepends=True)
    data = json.loads(first)
    change(data)
    journal.write_text("".join([json.dumps(data) + "\n", *rest]))


def test_a_new_journal_is_for_its_operator_only(tmp_path):
    before = os.umask(0)
    try:
        RolloutJournal.create(tmp_path / "new" / "j.ndjson").close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new" / "j.ndjson").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RefusedError, match="is not a regular file"):
        RolloutJournal.create(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("mode", "message"),
    [(0o620, "its group may write it .mode 0620."), (0o602, "everyone may write it .mode 0602."), (0o666, "its group")],
)
def test_a_journal_that_others_may_write_is_refused(journal, resume, mode, message):
    journal.chmod(mode)
    before = journal.read_bytes()
    with pytest.raises(RefusedError, match=message):
        read_journal(journal)
    code, error = resume()
    assert (code, journal.read_bytes()) == (6, before)
    assert "nothing was done: the journal" in error
    with pytest.raises(RefusedError, match=message):
        RolloutJournal.reopen(journal)


def test_a_journal_of_another_user_is_refused(journal, resume, mocker):
    mocker.patch("os.geteuid", return_value=os.geteuid() + 1)
    code, error = resume()
    assert code == 6
    assert f"it is owned by another user (uid {os.getuid()})" in error


def test_what_is_not_a_regular_file_is_refused(journal, resume, tmp_path):
    (tmp_path / "link").symlink_to(journal)
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "link", tmp_path / "fifo", "/dev/zero", tmp_path):
        code, error = resume(path=path)
        assert code == 6, path
        assert "it is not a regular file" in error
    code, error = resume(path=tmp_path / "none")
    assert code == 2
    assert "No such file" in error


def test_a_journal_with_another_command_is_refused_unless_it_is_given(journal, resume, tmp_path):
    changed(journal, lambda data: data["spec"].update(command=f"touch {tmp_path / 'CANARY'}"))
    code, error = resume()
    assert code == 6
    assert "are not those of the first run" in error
    assert "the first run had --exec 'false'" in error
    assert not (tmp_path / "CANARY").exists()
    code, error = resume("--exec", "false")
    assert (code, (tmp_path / "CANARY").exists()) == (7, False)
    (again,) = [line for line in read_journal(journal) if line.kind is JournalKind.RESUME]
    assert again.data["commands"]["command"] == "false"


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["spec"]["steps"][0].update(members=["b"]),
        lambda data: data["spec"].update(pods={"a": "other"}),
        lambda data: data["spec"]["limits"].update(accept_unseen=False),
        lambda data: data.update(cluster_id="another"),
    ],
)
def test_a_journal_with_another_plan_is_refused_whatever_is_given(journal, resume, change):
    changed(journal, change)
    for words in ((), ("--exec", "false")):
        code, error = resume(*words)
        assert code in (2, 6)
        assert "is not that of the first run: the file was changed" in error or "a member twice" in error


def test_a_journal_from_elsewhere_needs_its_commands(journal, resume, tmp_path):
    shutil.rmtree(tmp_path / "state")
    code, error = resume()
    assert code == 6
    assert "it is not known whether the commands" in error
    assert "the journal has --exec 'false'" in error
    assert resume("--exec", "false")[0] == 7


def test_commands_are_given_all_or_none(journal, resume):
    for words, message in (
        (("--exec-stop", "true"), "--exec is missing"),
        (("--shell",), "--resume takes --shell and --on-failure only with the commands"),
        (("--exec", "{nothing}"), "is not a placeholder"),
    ):
        code, error = resume(*words)
        assert code == 2, words
        assert message in error


# -- damage

#: What was done to the lines of a journal, and what kgm says of it.
DAMAGE = (
    (
        lambda lines: lines[0]["spec"]["limits"].update(interval_ms="soon"),
        "Expected `int`, got `str` - at `$.limits.interval_ms`",
    ),
    (lambda lines: lines[0]["spec"]["limits"].update(interval_ms=0), "Expected `int` >= 1 - at `$.limits.interval_ms`"),
    (lambda lines: lines[0]["spec"].update(restart_time_ms=-1), "Expected `int` >= 0 - at `$.restart_time_ms`"),
    (lambda lines: lines[0]["spec"].update(group_id=7), "Expected `str`, got `int` - at `$.group_id`"),
    (lambda lines: lines[0]["spec"].update(pods=["a"]), "Expected `object`, got `array` - at `$.pods`"),
    (lambda lines: lines[0]["spec"].update(kafka_version="x"), "'x'"),
    (lambda lines: lines[0]["spec"].update(steps=[]), "it has no steps"),
    (lambda lines: lines[0]["spec"]["steps"][0].update(remove=["z"]), "removes others"),
    (lambda lines: lines[0]["foretold"]["rebalances"].update(min=9), "is not a range"),
    (lambda lines: lines[0].update(run="../../etc"), "is not the id of a run"),
    (lambda lines: lines[1]["group"]["members"][0].update(group_instance_id="z"), "the group before step 1 has no a"),
    (lambda lines: lines[1]["group"].update(state="Empty", members=[]), "the group before step 1 has no a"),
    (lambda lines: lines.insert(2, lines[1]), "step-begin of step 1 at the wrong place"),
    (lambda lines: lines.pop(1), "command-begin of step 1 at the wrong place"),
    (lambda lines: lines[2].update(identity="b"), "'b' is not of step 1"),
    (lambda lines: lines[3].update(pid="1/../../x"), "has the wrong type"),
    (lambda lines: lines[1].update(step=2), "step-begin of step 2, where step 1 is next"),
    (lambda lines: lines[4].update(is_success="no"), "has the wrong type"),
    (lambda lines: lines[-1].update(is_final=None), "has the wrong type"),
)


@pytest.mark.few(4)
@pytest.mark.parametrize(("damage", "message"), DAMAGE)
def test_what_no_rollout_has_written_is_refused(damage, message, stopped, resume, tmp_path):
    lines = documents(stopped)
    damage(lines)
    shutil.rmtree(tmp_path / "state")  # else it is refused because the file was changed
    code, error = resume("--exec", "false", path=written(tmp_path, lines))
    assert code == 2, error
    assert message in error


_VALUES = st.sampled_from([None, True, -1, 10**30, 1.5, "", "x", "\ud800", [], ["a"], {}, {"min": 1}, [[]]])


def places(value, path=()):
    """Where something is in a document."""
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places(part, (*path, key))


@st.composite
def damaged(draw, lines):
    """The lines of a journal, of which some were removed, repeated, swapped or changed somewhere inside."""
    lines = copy.deepcopy(lines)
    for _ in range(draw(st.integers(1, 3))):
        if not lines:
            break
        at = draw(st.integers(0, len(lines) - 1))
        what = draw(st.sampled_from(["change", "change", "change", "remove key", "remove", "repeat", "swap"]))
        if what == "remove":
            del lines[at]
        elif what == "repeat":
            lines.insert(draw(st.integers(0, len(lines))), lines[at])
        elif what == "swap":
            other = draw(st.integers(0, len(lines) - 1))
            lines[at], lines[other] = lines[other], lines[at]
        else:
            *path, last = draw(st.sampled_from([one for one in places(lines[at]) if one] or [("kind",)]))
            within = lines[at] = copy.deepcopy(lines[at])
            for key in path:
                within = within[key]
            if what == "change":
                within[last] = draw(_VALUES)
            else:
                del within[last]
    return lines


def documents(stopped):
    return [json.loads(line) for line in (stopped / "j.ndjson").read_text().splitlines()]


def written(folder, lines):
    path = folder / "damaged.ndjson"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    path.chmod(0o600)
    return path


_SETTINGS = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
_GIVEN = ResumeChanges(commands=RolloutCommands(command="false"))


@settings(_SETTINGS, max_examples=60)
@given(data=st.data())
def test_a_damaged_journal_is_a_typed_error(data, stopped, tmp_path):
    path = written(tmp_path, data.draw(damaged(documents(stopped))))
    for folder, changes in ((stopped / "state" / "kgm" / "rollouts", ResumeChanges()), (tmp_path / "none", _GIVEN)):
        with contextlib.suppress(UsageError, RefusedError):
            open_journal(path, folder, changes)


@settings(_SETTINGS, max_examples=12)
@given(data=st.data())
def test_what_is_taken_up_of_a_damaged_journal_ends_with_no_internal_error(data, stopped, tmp_path, server):
    """The worst case: nobody knows the first run, and the operator has given the command."""
    resumed(data.draw(damaged(documents(stopped))), tmp_path, server)


@pytest.mark.long
@settings(_SETTINGS, max_examples=300)
@given(data=st.data())
def test_many_damaged_journals_end_with_no_internal_error(data, stopped, tmp_path, server):
    resumed(data.draw(damaged(documents(stopped))), tmp_path, server)


def resumed(lines, folder, server):
    path = written(folder, lines)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / f"state-{random.randrange(10**9)}"))
        words = ["--exec", "false", "--accept-unseen", "--timeout", "5s"]
        assert run(["rollout", "--yes", "--resume", str(path), "-b", server.bootstrap, *words]) in (0, 2, 6, 7, 8)


# -- a journal that cannot be written ----------------------------------------------------------------------------------


@pytest.fixture
def limited(server, group, form, tmp_path):
    """Run a rollout whose files may have so many bytes: (exit code, stderr). Its commands write to the file `ran`."""
    form(*NAMES)
    environment = {**bare(), "XDG_STATE_HOME": str(tmp_path / "state"), "XDG_CACHE_HOME": str(tmp_path)}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # Python would not notice that a file of compiled code was cut off

    def limited(most_bytes, *words):
        if not words:
            command = f"touch {tmp_path / 'ran'}"
            words = (group, "--all", "--rolling", "--accept-unseen", "--exec", command, "--journal", path, *FLAGS)
        done = subprocess.run(
            [*KGM, "rollout", "--yes", "--no-audit", "-b", server.bootstrap, *words], env=environment, check=False,
            capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes)),
        )  # fmt: skip
        return done.returncode, done.stderr

    path = str(tmp_path / "j.ndjson")
    return limited


def lengths(tmp_path):
    return [len(line) for line in (tmp_path / "j.ndjson").read_bytes().splitlines(keepends=True)]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("most_bytes", [10, 300], ids=["not even the mark", "the plan"])
def test_a_rollout_whose_plan_cannot_be_written_leaves_nothing_behind(limited, tmp_path, most_bytes):
    code, err = limited(most_bytes)
    assert (code, "nothing was done: " in err, "cannot be written: File too large" in err) == (6, True, True), err
    assert "resume" not in err
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "j.ndjson").exists()
    assert not list((tmp_path / "state").rglob("*.plan"))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("lines", [1, 2], ids=["step-begin", "command-begin"])
def test_a_rollout_whose_journal_is_full_before_the_first_command_has_done_nothing(limited, tmp_path, lines):
    assert limited(resource.RLIM_INFINITY)[0] == 8  # no member comes back: its commands restart none
    most_bytes = sum(lengths(tmp_path)[:lines]) + 40
    (tmp_path / "ran").unlink()
    path = tmp_path / "j.ndjson"
    path.unlink()
    code, err = limited(most_bytes)
    assert (code, (tmp_path / "ran").exists()) == (6, False), err
    assert f"nothing was done: the journal {path} cannot be written: File too large" in err
    assert f"free some space; to continue: kgm rollout --resume {path}" in err
    assert "commands that were running" not in err
    assert limited(resource.RLIM_INFINITY, "--resume", str(path))[0] == 8  # it continues with the command
    assert (tmp_path / "ran").exists()
    before = path.read_bytes()
    (tmp_path / "ran").unlink()
    code, err = limited(len(before) + 10, "--resume", str(path))
    assert (code, path.read_bytes(), (tmp_path / "ran").exists()) == (6, before, False), err


def test_a_line_that_does_not_fit_leaves_no_part_of_it(tmp_path, mocker):
    """The line that says why the rollout has stopped may fit where the one before it did not."""
    journal = RolloutJournal.create(tmp_path / "j.ndjson")
    journal.write(JournalKind.PLAN, spec={})
    write = os.write

    def torn(file, data):
        if b"step-begin" not in bytes(data):
            return write(file, data)
        write(file, bytes(data)[:9])
        raise OSError(errno.ENOSPC, "No space left on device")

    mocker.patch("os.write", torn)
    with pytest.raises(PartialError):
        journal.write(JournalKind.STEP_BEGIN, step=1)
    journal.write(JournalKind.STOP, reason="full")
    journal.close()
    assert [line.kind for line in read_journal(tmp_path / "j.ndjson")] == [JournalKind.PLAN, JournalKind.STOP]


# -- a journal that is gone --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["rm {0}", "mv {0} {0}.old", "cp {0} {0}.new && mv {0}.new {0}"])
def test_a_rollout_stops_when_its_journal_is_gone_and_does_not_say_that_it_can_be_resumed(
    how, server, group, form, tmp_path
):
    """A rollout may be killed at any time, and without a journal nobody would know where."""
    form(*NAMES)
    path = tmp_path / "j.ndjson"
    command = f"echo ran >> {tmp_path / 'ran'}; {how.format(path)}"
    words = ["rollout", group, "--yes", "-b", server.bootstrap, "--all", "--rolling", "--accept-unseen", *FLAGS]
    state = {"XDG_STATE_HOME": str(tmp_path / "state")}
    ended = kgm(*words, "--shell", "--exec", command, "--journal", str(path), env=state)
    err = ended.err
    assert ended.code == 7
    assert f"the journal {path} was deleted or moved: the rollout has stopped" in err
    assert ("start a new rollout" in err, "--resume" in err, "the journal is" in err) == (True, False, False), err
    assert (tmp_path / "ran").read_text() == "ran\n"


def test_a_journal_that_is_gone_before_anything_was_done_refuses_the_rollout(tmp_path):
    journal = RolloutJournal.create(tmp_path / "j.ndjson")
    journal.path.unlink()
    with pytest.raises(PartialError) as unwritten:
        journal.write(JournalKind.PLAN, spec={})
    refusal = unwritten.value.as_refusal(then="", group_id="g")
    assert (refusal.message, refusal.hint) == (
        f"nothing was done: the journal {journal.path} was deleted or moved",
        "start it again, with another --journal",
    )
    journal.close()


@pytest.mark.parametrize("is_there", [True, False])
def test_an_interrupted_rollout_names_its_journal_only_if_there_is_one(is_there, tmp_path, capsys):
    printer = RolloutPrinter(RunOptions(), "g")
    printer.journal = str(tmp_path / "j.ndjson")
    if is_there:
        (tmp_path / "j.ndjson").touch()
    printer.interrupted()
    err = capsys.readouterr().err
    assert ("--resume" in err, "so it cannot be resumed" in err) == (is_there, not is_there)


# -- a state folder that cannot be written -----------------------------------------------------------------------------


@pytest.mark.long
def test_a_disk_that_is_full_for_the_owner_of_the_lock_is_no_internal_error(limited, tmp_path):
    """The text only informs others: the mark of the plan, which must be kept, refuses the rollout."""
    code, err = limited(0)
    assert (code, "nothing was done: " in err, "cannot be written: File too large" in err) == (6, True, True), err
    assert not (tmp_path / "ran").exists()


def test_a_rollout_is_resumed_as_its_hint_says_after_the_audit_log_could_not_be_written(
    journal, resume, tmp_path, mocker
):
    """Another state folder would lack the mark of the plan."""
    append = AuditLog._append
    mocker.patch.object(AuditLog, "_append", side_effect=OSError(errno.ENOSPC, "No space left on device"))
    code, err = resume()
    hint = err[err.index("hint: ") :]
    assert (code, "the audit log cannot be written" in err) == (7, True), err
    assert "hint: free some space, or make it writable; --no-audit runs the commands without a record; " in hint
    assert f"to continue: kgm rollout --resume {journal}" in hint
    assert "XDG_STATE_HOME" not in err
    assert "the command of a ended with exit code 1" in resume("--no-audit")[1]
    mocker.patch.object(AuditLog, "_append", append)
    assert "the command of a ended with exit code 1" in resume()[1]
    mocker.patch.object(AuditLog, "_open", side_effect=OSError(errno.ENOSPC, "No space left on device"))
    code, err = resume()
    assert (code, "XDG_STATE_HOME" in err, "--no-audit runs the commands" in err) == (6, False, True), err
