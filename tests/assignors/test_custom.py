"""Assignors of somebody's own, in packages that are really installed, and what becomes of broken ones."""

import base64
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import textwrap
import zipfile

import pytest

from kgm.assignors import GroupSpec, MemberSpec, TopicSpec, assign, custom, is_cooperative, is_known
from kgm.assignors.custom import AssignorError
from kgm.model.errors import UsageError
from tests import KGM

#: Everybody gets whole topics, by name: nothing that Kafka brings does that.
WHOLE_TOPICS = """
    class WholeTopics:
        is_cooperative = False

        def assign(self, group):
            answer = {}
            members = sorted(group.members, key=lambda member: member.group_instance_id or member.member_id)
            for turn, topic in enumerate(sorted(group.topics, key=lambda topic: topic.name)):
                taker = members[turn % len(members)]
                answer.setdefault(taker.member_id, {})[topic.name] = range(topic.partitions)
            return answer
"""
GROUP = GroupSpec(
    members=(MemberSpec(member_id="a", topics=("t", "u")), MemberSpec(member_id="b", topics=("t", "u"))),
    topics=(TopicSpec(name="t", partitions=2), TopicSpec(name="u", partitions=1)),
)
CASE = {
    "case": 1,
    "assignor": "acme-whole",
    "topics": [{"name": "t", "partitions": 2}, {"name": "u", "partitions": 1}],
    "members": [{"member_id": "a", "topics": ["t", "u"]}, {"member_id": "b", "topics": ["t", "u"]}],
}


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts a package with one assignor on the path, as an installer leaves it; returns its folder."""
    custom.find.cache_clear()
    count = iter(range(100))

    def install(code, name="acme-whole", target="WholeTopics"):
        number = next(count)
        site = tmp_path / f"site-{number}"
        info = site / f"acme{number}-1.{number}.dist-info"
        info.mkdir(parents=True)
        module = f"acme_{tmp_path.name.replace('-', '_')}_{number}"
        (site / f"{module}.py").write_text(textwrap.dedent(code))
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: acme{number}\nVersion: 1.{number}\n")
        (info / "entry_points.txt").write_text(f"[kgm.assignors]\n{name} = {module}:{target}\n")
        monkeypatch.syspath_prepend(site)
        custom.find.cache_clear()
        return site

    yield install
    custom.find.cache_clear()


def test_an_installed_assignor_is_one_of_kgms(install):
    install(WHOLE_TOPICS)
    assert is_known("acme-whole")
    assert not is_cooperative("acme-whole")
    assert assign("acme-whole", GROUP) == {"a": {"t": (0, 1)}, "b": {"u": (0,)}}
    assert assign("acme-whole", GROUP, "librdkafka") == assign("acme-whole", GROUP)
    with pytest.raises(UsageError, match="'acme' is not known") as raised:
        assign("acme", GROUP)
    assert "consumer-range, acme-whole" in raised.value.hint


def test_nobody_looks_for_entry_points_when_a_name_is_built_in(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: pytest.fail("looked for"))
    assert assign("range", GROUP)
    assert is_known("sticky")
    assert is_cooperative("cooperative-sticky")
    assert not is_known("stream")  # nor for one that nobody can bring


WRONG = {
    "both get t-0": ({"a": {"t": [0, 1], "u": [0]}, "b": {"t": [0]}}, "t-0 goes to a and to b"),
    "twice": ({"a": {"t": [0, 1, 1], "u": [0]}}, "a gets a partition of t twice"),
    "not there": ({"a": {"t": [0, 1, 2], "u": [0]}}, "a gets t-2, which does not exist"),
    "below zero": ({"a": {"t": [0, 1, -1], "u": [0]}}, "a gets t--1, which does not exist"),
    "no number": ({"a": {"t": [0, "1"], "u": [0]}}, "a gets t-1, which does not exist"),
    "not subscribed": ({"a": {"t": [0, 1], "v": [0]}}, "a gets 'v', which it does not subscribe to"),
    "no member": ({"c": {"t": [0, 1]}}, "c is not a member of the group"),
    "left out": ({"a": {"t": [0, 1]}}, "no member gets u-0"),
    "no mapping": ([("a", "t", 0)], "not partitions by member id and topic"),
    "nothing": (None, "not partitions by member id and topic"),
}


@pytest.mark.parametrize(("answer", "message"), WRONG.values(), ids=WRONG)
def test_an_answer_that_cannot_be_is_not_believed(install, answer, message):
    install(f"class WholeTopics:\n    is_cooperative = False\n    def assign(self, group): return {answer!r}\n")
    with pytest.raises(AssignorError, match="'acme-whole' gives an invalid answer") as raised:
        assign("acme-whole", GROUP)
    assert message in raised.value.message
    assert raised.value.exit_code == 1


def test_a_cooperative_one_may_hold_back_what_somebody_claims(install):
    install(
        "class WholeTopics:\n    is_cooperative = True\n    def assign(self, group): return {'a': {'t': [1], 'u': [0]}}\n"
    )
    assert is_cooperative("acme-whole")
    with pytest.raises(AssignorError, match="no member gets t-0"):
        assign("acme-whole", GROUP)
    members = (GROUP.members[0], MemberSpec(member_id="b", topics=("t", "u"), owned={"t": [0]}))
    assert assign("acme-whole", GroupSpec(members=members, topics=GROUP.topics)) == {
        "a": {"t": (1,), "u": (0,)},
        "b": {},
    }


BROKEN = {
    "import": ("import nowhere_at_all", "cannot be loaded: ModuleNotFoundError: No module named 'nowhere_at_all'"),
    "no such class": ("", "cannot be loaded: AttributeError"),
    "constructor": (
        "def WholeTopics(): raise ValueError('no configuration')",
        "cannot be loaded: ValueError: no configuration",
    ),
    "shape": ("class WholeTopics: pass", "does not have assign() and is_cooperative"),
    "fails": (
        "class WholeTopics:\n    is_cooperative = False\n    def assign(self, group): return 1 / 0",
        "fails: ZeroDivisionError",
    ),
}


@pytest.mark.few(2)
@pytest.mark.parametrize(("code", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_package_is_named(install, code, message):
    site = install(code)
    with pytest.raises(AssignorError) as raised:
        assign("acme-whole", GROUP)
    assert message in raised.value.message
    done = kgm(site, "assign", "--from-file", "-", text=json.dumps(CASE))
    assert done.returncode == 1
    assert done.stderr.startswith("error: assignor 'acme-whole' ")
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_two_of_one_name(install):
    install(WHOLE_TOPICS)
    install(WHOLE_TOPICS)
    with pytest.raises(AssignorError, match=r"two assignors are called 'acme-whole': .*acme0 1\.0.*acme1 1\.1"):
        assign("acme-whole", GROUP)


@pytest.fixture(scope="module")
def with_pip(tmp_path_factory):
    """A folder into which pip has installed a wheel with an assignor (unpacked by hand where there is no pip)."""
    folder = tmp_path_factory.mktemp("pip")
    wheel, target = folder / "acme_assignor-1.0-py3-none-any.whl", folder / "site"
    info = "acme_assignor-1.0.dist-info"
    files = {
        "acme_assignor.py": textwrap.dedent(WHOLE_TOPICS),
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: acme-assignor\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[kgm.assignors]\nacme-whole = acme_assignor:WholeTopics\n",
    }
    record = "".join(f"{name},sha256={_digest(text)},{len(text.encode())}\n" for name, text in files.items())
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n"}.items():
            archive.writestr(name, text)
    if importlib.util.find_spec("pip") is None:
        zipfile.ZipFile(wheel).extractall(target)
        return target
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-index",
        "--no-deps",
        "--target",
        str(target),
        str(wheel),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return target


def _digest(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def kgm(site, *arguments, text=None):
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [*KGM, *arguments]
    return subprocess.run(
        command, input=text, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False
    )


def answer_of(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_installed_by_pip_it_joins_kgm_assign(with_pip):
    answer = answer_of(kgm(with_pip, "assign", "--from-file", "-", text=json.dumps(CASE)))
    assert answer == {"case": 1, "assignment": {"a": {"t": [0, 1]}, "b": {"u": [0]}}}


@pytest.mark.long
@pytest.mark.slow
def test_installed_by_pip_it_joins_the_simulation(with_pip):
    """Three topics of two members: one holds two whole topics; when it stops for good the other has all."""
    topics = [argument for name in "tuv" for argument in ("--topic", f"{name}:4")]
    plan = ["--members", "2", *topics, "--assignor", "acme-whole", "--scale-in", "member-1", "-o", "json"]
    [scenario] = answer_of(kgm(with_pip, "simulate-bounce", *plan))["data"]["scenarios"]
    assert scenario["assignor"] == "acme-whole"
    assert scenario["moved_partitions"] == 8
    assert scenario["final_assignment"] == {"member-2": {name: [0, 1, 2, 3] for name in "tuv"}}
