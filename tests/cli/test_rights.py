"""Each command against a real Kafka with StandardAuthorizer: without a right, with DESCRIBE only, with those it needs.

test_rights_table does the same over every login; test_secrets checks that no password is printed."""

from __future__ import annotations

import itertools
import json

import pytest
from confluent_kafka.admin import AclPermissionType

from kgm.cli.main import run
from kgm.client import connect
from tests.kafka.java_tools import java_command
from tests.kafka.process import Child
from tests.kafka.records import commit
from tests.kafka.secured import CANARY, PARTITIONS, TOPIC, jaas
from tests.waiting import until

pytestmark = [pytest.mark.shows("ACLs"), pytest.mark.kafka, pytest.mark.slow]

GROUP = "rights"
#: A group whose members are pods of a StatefulSet.
PODS = "rights-pods"
#: A group that nobody uses any more.
DEAD = "rights-dead"
#: Commands that connect to a cluster, with their other arguments.
CLUSTER_COMMANDS = {
    "list": ["list"],
    "top": ["top", "--once"],
    "describe": ["describe", GROUP],
    "remove-members": [
        "remove-members",
        GROUP,
        "--instance-ids",
        "a",
        "--yes",
        "--assume-stopped",
        "--guard-window",
        "100ms",
    ],
    "delete-groups": ["delete-groups", DEAD, "--idle-for", "0s", "--assume-idle", "--guard-window", "0s", "--yes"],
    "simulate-bounce": ["simulate-bounce", GROUP, "--all", "--draws", "2"],
    "drain": ["drain", GROUP, "--client-id", "*", "--draws", "2"],
    "plan": ["plan", GROUP, "--draws", "1", "--budget", "10ms"],
    "rollout": ["rollout", GROUP, "--all", "--exec", "true", "--dry-run", "--draws", "2"],
    "scale-in": ["scale-in", PODS, "--to", "0"],
    "watch": ["watch", GROUP, "--count", "1"],
    "wait": ["wait", GROUP, "--for", "members=1"],
    "doctor": ["doctor", GROUP, "--window", "0s", "--fail-on", "never"],
    "export": ["export", GROUP, "--findings-every", "0s"],
    "diff": ["diff", f"live:{GROUP}", f"live:{GROUP}"],
    "config view": ["config", "view", "--show-origin"],
    "config test": ["config", "test", "-g", GROUP],
}
INVISIBLE = "groups may be invisible: without DESCRIBE on Cluster 'kafka-cluster'"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def kafka(secured):
    """`viewer` has DESCRIBE on a group, `wildcard` on all groups, `operator` what every command needs,
    `nobody` nothing."""
    secured.add_absent_member(GROUP, "a")
    secured.add_absent_member("rights-unseen", "a")
    secured.add_absent_member(PODS, "a-0")
    secured.allow("viewer", "DESCRIBE", group=GROUP)
    secured.allow("viewer", "DESCRIBE", group=PODS)
    secured.allow("operator", "READ", group=GROUP)
    secured.allow("operator", "DESCRIBE", group=PODS)
    secured.allow("operator", "DESCRIBE")
    secured.allow("operator", "DESCRIBE", topic=TOPIC)
    secured.allow("wildcard", "DESCRIBE", group="*")
    return secured


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write settings to a client.properties of mode 600."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))

    def write(settings):
        path = tmp_path / f"client-{next(_numbers)}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        path.chmod(0o600)
        return str(path)

    return write


@pytest.fixture
def as_user(kafka, write, capsys):
    """Run a command as a user: (exit code, JSON document, stderr)."""

    def as_user(user, *arguments):
        login = ["--command-config", write(kafka.settings("SASL_SSL", user))]
        patience = [] if "--timeout" in arguments else ["--timeout", "60s"]
        code = run([*arguments, "-o", "json", *patience, *login])
        captured = capsys.readouterr()
        assert CANARY not in captured.out + captured.err
        return code, json.loads(captured.out), captured.err

    return as_user


def test_list(as_user):
    code, document, err = as_user("nobody", "list")
    assert (code, document["data"]["groups"]) == (0, [])
    assert "no group is visible: without DESCRIBE on Cluster 'kafka-cluster'" in err
    code, document, err = as_user("viewer", "list")
    seen = {row["group_id"] for row in document["data"]["groups"]}
    assert code == 0
    (warning,) = document["warnings"]
    assert err == f"warning: {warning}\n"
    assert warning.startswith(INVISIBLE)
    assert GROUP in seen
    assert "rights-unseen" not in seen  # Kafka leaves it out and says nothing
    code, document, err = as_user("operator", "list")  # who may list all groups, and describe some
    (warning,) = err.splitlines()  # other tests may have left groups like that
    assert code == 0
    undescribed = {row["group_id"] for row in document["data"]["groups"] if row["members"] is None}
    assert "rights-unseen" in undescribed
    assert GROUP not in undescribed
    assert warning.startswith(f"warning: group '{min(undescribed)}'")
    assert warning.endswith("could not be described (GROUP_AUTHORIZATION_FAILED): members and lag are unknown")
    assert {GROUP, "rights-unseen"} <= {row["group_id"] for row in document["data"]["groups"]}


def test_a_right_on_all_groups_hides_none(as_user):
    """Kafka lists the groups on which the principal has DESCRIBE, whether by their names or by an ACL on '*'."""
    code, document, err = as_user("wildcard", "list")
    assert (code, document["warnings"]) == (0, [])
    assert INVISIBLE not in err
    assert {GROUP, "rights-unseen"} <= {row["group_id"] for row in document["data"]["groups"]}


def test_describe(as_user):
    code, document, err = as_user("nobody", "describe", GROUP)
    assert code == 4
    assert f"the principal needs DESCRIBE on Group '{GROUP}'" in err
    assert f"--operation Describe --group {GROUP}" in err
    assert document["errors"][0]["code"] == "GROUP_AUTHORIZATION_FAILED"
    code, document, err = as_user("nobody", "describe", "--all-groups")
    assert (code, document["data"]["groups"]) == (0, [])
    assert "no group is visible" in err
    code, document, err = as_user("viewer", "describe", GROUP)
    (member,) = document["data"]["groups"][0]["members"]
    assert (code, member["group_instance_id"], member["lag"]) == (0, "a", None)
    assert f"no DESCRIBE on Topic '{TOPIC}'" in err
    code, document, err = as_user("operator", "describe", GROUP)
    (topic,) = document["data"]["groups"][0]["topics"]
    assert (code, topic["name"], topic["partitions"]) == (0, TOPIC, 6)
    assert "no DESCRIBE on Topic" not in err


def test_simulate_bounce(as_user):
    code, document, err = as_user("nobody", "simulate-bounce", GROUP, "--all")
    assert code == 4
    assert f"the principal needs DESCRIBE on Group '{GROUP}'" in err
    for user in ("viewer", "operator"):
        code, document, err = as_user(user, "simulate-bounce", GROUP, "--all")
        assert (code, document["data"]["group_id"]) == (0, GROUP)
        assert ("no DESCRIBE on Topic" in err) == (user == "viewer")


def test_rollout_and_scale_in(as_user):
    """Both only read; a rollout that is carried out also needs READ on __consumer_offsets, to count rebalances."""
    for words, group in ((CLUSTER_COMMANDS["rollout"], GROUP), (CLUSTER_COMMANDS["scale-in"], PODS)):
        code, document, err = as_user("nobody", *words)
        assert code == 4
        assert f"the principal needs DESCRIBE on Group '{group}'" in err
        for user in ("viewer", "operator"):
            code, document, err = as_user(user, *words)
            assert (code, document["data"]["group_id"]) == (0, group)
            assert ("no DESCRIBE on Topic" in err) == (user == "viewer")


def test_drain(as_user):
    code, document, err = as_user("nobody", "drain", GROUP, "--client-id", "*")
    assert code == 4
    assert f"the principal needs DESCRIBE on Group '{GROUP}'" in err
    assert [one["group_id"] for one in document["data"]["not_predicted"]] == [GROUP]
    for user in ("viewer", "operator"):
        code, document, err = as_user(user, "drain", GROUP, "--client-id", "*")
        assert (code, [one["group_id"] for one in document["data"]["groups"]]) == (0, [GROUP])
        assert ("no DESCRIBE on Topic" in err) == (user == "viewer")


def test_remove_members(as_user, kafka):
    """LeaveGroup needs READ on the group, the right of every consumer."""
    group = "rights-removal"
    kafka.add_absent_member(group, "a")
    kafka.allow("viewer", "DESCRIBE", group=group)
    kafka.allow("operator", "READ", group=group)
    remove = ["remove-members", group, "--instance-ids", "a", "--yes", "--assume-stopped", "--guard-window", "100ms"]
    code, document, err = as_user("nobody", *remove)
    assert code == 4
    assert f"the principal needs DESCRIBE on Group '{group}'" in err
    code, document, err = as_user("viewer", *remove)
    assert code == 4
    assert f"the principal needs READ on Group '{group}'" in err
    assert f"--operation Read --group {group}" in err
    code, document, err = as_user("viewer", *[word for word in remove if word != "--yes"], "--dry-run")
    assert (code, document["data"]["results"][0]["result"]) == (0, "planned")
    code, document, err = as_user("operator", *remove)
    assert (code, document["data"]["results"][0]["result"]) == (0, "removed")


def test_delete_groups(as_user, kafka):
    """DeleteGroups needs DELETE on the group, OffsetDelete also READ on the topic."""
    kafka.add_dead_group(DEAD)
    kafka.allow("viewer", "DESCRIBE", group=DEAD)
    kafka.allow("operator", "DELETE", group=DEAD)
    delete = CLUSTER_COMMANDS["delete-groups"]
    code, document, err = as_user("nobody", *delete)
    assert code == 4
    assert f"the principal needs DESCRIBE on Group '{DEAD}'" in err
    code, document, err = as_user("viewer", *[word for word in delete if word != "--assume-idle"])
    assert (code, document["data"]["results"][0]["idleness"]["verdict"]) == (6, "unknown")
    assert "no READ on Topic '__consumer_offsets'" in err
    code, document, err = as_user("viewer", *delete)
    assert code == 4
    assert f"the principal needs DELETE on Group '{DEAD}'" in err
    assert f"--operation Delete --group {DEAD}" in err
    code, document, err = as_user("operator", *delete, "--topic", TOPIC)
    assert code == 4
    assert "the principal needs READ on Topic" in err
    code, document, err = as_user("operator", *delete)
    assert (code, document["data"]["results"][0]["result"]) == (0, "removed")


def test_watch(as_user, kafka):
    """Generations are in a topic that not every principal may read: without them only visible rebalances are counted."""
    group = "rights-watched"
    kafka.add_absent_member(group, "a")
    kafka.allow("viewer", "DESCRIBE", group=group)
    kafka.allow("operator", "READ", group=group)
    code, _, err = as_user("nobody", "watch", group, "--count", "1")
    assert code == 4
    assert f"the principal needs DESCRIBE on Group '{group}'" in err
    code, document, _ = as_user("viewer", "watch", group, "--count", "1")
    (seen,) = document["data"]["groups"]
    assert (code, seen["generation"], seen["rebalances_exact"]) == (0, None, False)
    assert "no READ on Topic '__consumer_offsets'" in seen["rebalances_doubt"]
    kafka.allow("operator", "READ", topic="__consumer_offsets")
    code, document, _ = as_user("operator", "watch", group, "--count", "1")
    (seen,) = document["data"]["groups"]
    assert (code, seen["generation"], seen["rebalances_exact"]) == (0, 1, True)


def test_offsets_that_brokers_may_leave_out_are_no_lag_of_zero(as_user, kafka, capsys):
    """OffsetFetch names no topic on which the login has no DESCRIBE, and says nothing of it. Where no member names the
    topics, only a login that may describe any topic, or read the group's log, knows all of the lag."""
    group, hidden = "rights-hidden", "rights-hidden-topic"
    kafka.create_topics({hidden: 1})
    kafka.produce(hidden, [b"x"] * 5)
    commit(kafka.bootstrap, group, (TOPIC, 0, 0), (hidden, 0, 0))
    kafka.allow("limited", "DESCRIBE", group=group)
    kafka.allow("limited", "DESCRIBE", topic=TOPIC)
    left_out = "unknown lag: brokers leave out topics on which this login has no DESCRIBE"
    code, document, err = _unmet(as_user, "limited", group, lambda err: left_out in err)
    assert (code, document["data"]["lag"]) == (7, None)
    assert left_out in err
    code, document, err = as_user("limited", "list", "--match", group, "--lag")
    assert (code, document["data"]["groups"][0]["lag"]) == (0, None)
    assert f"group '{group}' may have offsets of topics on which this login has no DESCRIBE" in err
    _, document, _ = as_user("limited", "doctor", group, "--window", "0s", "--fail-on", "never")
    assert any("empty-with-lag" in one["checks"] for one in document["data"]["skipped"])
    assert run(["list", "--match", group, "--lag", "-b", kafka.bootstrap, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["groups"][0]["lag"] == 5  # where nothing is hidden


def _gate(group, condition="lag<=0", timeout="60s"):
    return ["wait", group, "--for", condition, "--timeout", timeout, "--interval", "200ms"]


def _unmet(as_user, user, group, accept):
    """A gate that is never met, with a timeout in which a busy machine can read what the verdict rests on: accept gets
    its stderr."""
    for timeout in ("1s", "3s", "9s", "27s"):
        code, document, err = as_user(user, *_gate(group, timeout=timeout))
        if accept(err):
            break
    return code, document, err


@pytest.fixture(scope="module")
def left(kafka):
    """(group, topic): the group's member reads `orders` only, and the group has a lag of 5 in the topic, which it once
    read. `limited` may describe what the member reads, `auditor` may also read the group's log."""
    group, topic = "rights-left", "rights-left-topic"
    kafka.create_topics({topic: 1})
    kafka.produce(topic, [b"x"] * 5)
    for name, places in ((group, [(topic, 0, 0)]), ("rights-kept", [])):
        commit(kafka.bootstrap, name, *((TOPIC, number, 0) for number in range(PARTITIONS)), *places)
        kafka.add_absent_member(name, "a")
        for user in ("limited", "auditor", "viewer"):
            kafka.allow(user, "DESCRIBE", group=name)
    for user in ("limited", "auditor"):
        kafka.allow(user, "DESCRIBE", topic=TOPIC)
    kafka.allow("auditor", "READ", topic="__consumer_offsets")
    kafka.allow("wildcard", "DESCRIBE", topic="*")
    return group, topic


def test_a_lag_without_topics_that_are_left_says_so(as_user, left):
    """The login knows the lag of all topics that members read. No API tells it that the group has offsets of others."""
    group, _ = left
    scope = "in the topics that this login may describe"
    for condition, seen in (("lag<=0", f"lag 0 {scope}"), ("lag-time<=1s", f"lag 0ms {scope}")):
        code, document, _ = as_user("limited", *_gate(group, condition))
        assert (code, [one["seen"] for one in document["data"]["conditions"]]) == (0, [seen])
    hidden = f"group '{group}' may have offsets of topics on which this login has no DESCRIBE"
    for words in (
        ["list", "--match", group, "--lag"],
        ["describe", group],
        ["export", group, "--findings-every", "0s"],
    ):
        code, _, err = as_user("limited", *words)
        assert (code, hidden in err) == (0, True), err
    code, document, err = as_user("limited", "doctor", group, "--window", "0s", "--check", "offsets-of-other-topics")
    assert (code, document["data"]["findings"]) == (7, [])
    assert hidden in err
    code, document, err = as_user("limited", "delete-groups", group, "--stale-topics", "--dry-run")
    assert (code, document["data"]["results"]) == (0, [])
    assert f"group {group} may have committed offsets of topics that this login cannot see" in err
    assert "they are left alone" in err


def test_the_log_of_a_group_shows_the_topics_that_brokers_leave_out(as_user, left):
    group, topic = left
    hidden = f"has committed offsets of topics on which this login has no DESCRIBE: {topic}"
    code, document, err = _unmet(as_user, "auditor", group, lambda err: hidden in err)
    assert (code, document["data"]["lag"]) == (7, None)
    assert hidden in err
    _, document, err = as_user("auditor", "describe", group)
    (seen,) = document["data"]["groups"]
    assert (seen["may_lack_offsets"], seen["hidden_offset_topics"]) == (True, [topic])
    assert f"no DESCRIBE on Topic '{topic}'" in err
    code, _, _ = as_user("auditor", "doctor", group, "--window", "0s", "--check", "offsets-of-other-topics")
    assert code == 7
    _, _, err = as_user("auditor", "delete-groups", group, "--stale-topics", "--dry-run")
    assert f"has committed offsets of {topic}, which this login cannot see" in err
    # Of the other group nothing is hidden, and so this login is told all.
    code, document, err = as_user("auditor", *_gate("rights-kept"))
    assert (code, [one["seen"] for one in document["data"]["conditions"]], err) == (0, ["lag 0"], "")
    _, document, err = as_user("auditor", "describe", "rights-kept")
    assert (document["data"]["groups"][0]["may_lack_offsets"], err) == (False, "")


def test_nothing_is_hidden_from_a_login_that_may_describe_any_topic(as_user, left):
    group, topic = left
    left_behind = f"5 in topics that no member subscribes to: {topic}"
    code, document, err = _unmet(as_user, "wildcard", group, lambda err: left_behind in err)
    assert (code, document["data"]["lag"]) == (8, 5), err
    assert left_behind in err
    code, document, err = as_user("wildcard", *_gate("rights-kept"))
    assert (code, document["data"]["lag"], err) == (0, 0, "")


@pytest.fixture(scope="module")
def denied(kafka):
    """(group, topic): an empty group with a lag of 5 in the topic, and no lag in `orders`. `barred` may
    describe all groups and topics and read the groups' logs, but a DENY keeps this topic from it."""
    group, topic = "rights-denied", "rights-denied-topic"
    kafka.create_topics({topic: 1, "rights-open-topic": 1})
    kafka.produce(topic, [b"x"] * 5)
    commit(kafka.bootstrap, group, ("rights-open-topic", 0, 0), (topic, 0, 0))
    commit(kafka.bootstrap, "rights-not-denied", ("rights-open-topic", 0, 0))
    kafka.allow("barred", "DESCRIBE", group="*")
    kafka.allow("barred", "DESCRIBE", topic="*")
    kafka.allow("barred", "DESCRIBE", topic=topic, permission=AclPermissionType.DENY)
    kafka.allow("barred", "READ", topic="__consumer_offsets")
    return group, topic


@pytest.mark.parametrize("condition", ["lag<=0", "lag-time<=60s"])
def test_the_log_of_a_group_shows_a_topic_that_is_denied(as_user, denied, condition):
    """StandardAuthorizer: a DENY outweighs an ALLOW on Topic '*'."""
    group, topic = denied
    hidden = f"has committed offsets of topics on which this login has no DESCRIBE: {topic}"
    for timeout in ("1s", "3s", "9s", "27s"):
        code, document, err = as_user("barred", *_gate(group, condition, timeout))
        assert (code, document["data"]["lag"]) == (7, None), err
        if hidden in err:
            break
    assert hidden in err


def test_a_topic_that_is_denied_is_noticed_where_one_group_is_described(as_user, denied):
    group, topic = denied
    code, document, err = as_user("barred", "describe", group)
    assert code == 0, err
    (seen,) = document["data"]["groups"]
    assert (seen["may_lack_offsets"], seen["hidden_offset_topics"]) == (True, [topic])
    assert f"no DESCRIBE on Topic '{topic}'" in err
    _, document, err = as_user("barred", "list", "--match", group, "--lag")
    assert [row["lag"] for row in document["data"]["groups"]] == [None]
    assert topic in err
    _, _, err = as_user("barred", "delete-groups", group, "--dry-run", "--idle-for", "0s")
    assert f"has committed offsets of {topic}, which this login cannot see" in err


@pytest.mark.parametrize("more", [[], ["rights-not-denied"]])
def test_doctor_does_not_pass_a_group_with_offsets_of_a_denied_topic(as_user, denied, more):
    group, topic = denied
    asked = "offsets-of-other-topics,empty-with-lag"
    code, document, err = as_user("barred", "doctor", group, *more, "--window", "0s", "--check", asked)
    assert (code, document["data"]["findings"]) == (7, []), err
    (skipped,) = [
        one for one in document["data"]["skipped"] if "empty-with-lag" in one["checks"] and topic in one["why"]
    ]
    assert "offsets-of-other-topics" in skipped["checks"]
    assert "rights-not-denied" not in skipped["why"]


def test_a_group_without_offsets_of_the_denied_topic_is_told_all(as_user, denied):
    code, document, err = as_user("barred", *_gate("rights-not-denied"))
    assert (code, [one["seen"] for one in document["data"]["conditions"]], err) == (0, ["lag 0"], "")
    _, document, err = as_user("barred", "describe", "rights-not-denied")
    assert (document["data"]["groups"][0]["may_lack_offsets"], err) == (False, "")


def test_a_group_that_is_denied_is_left_out_of_lists_without_describe_on_the_cluster(as_user, kafka, denied):
    """As docs/rights.md has it: KafkaApis.handleListGroupsRequest filters by group only without that right."""
    group = "rights-denied-group"
    kafka.add_absent_member(group, "a")
    kafka.allow("barred", "DESCRIBE", group=group, permission=AclPermissionType.DENY)
    code, document, err = as_user("barred", "list", "--match", "rights-d*")
    assert (code, err) == (0, "")
    assert group not in {row["group_id"] for row in document["data"]["groups"]}
    code, _, err = as_user("barred", "describe", group)
    assert code == 4
    assert (
        f"(kafka-acls --list): kafka-acls --add --allow-principal User:NAME --operation Describe --group {group}\n"
        in err
    )
    kafka.allow("operator", "DESCRIBE", group=group, permission=AclPermissionType.DENY)
    _, document, err = as_user("operator", "list", "--match", group)
    assert [row["group_id"] for row in document["data"]["groups"]] == [group]
    assert "could not be described (GROUP_AUTHORIZATION_FAILED)" in err


@pytest.mark.long
def test_the_log_of_groups_does_not_tell_where_a_share_group_reads(kafka, as_user, tmp_path):
    """`auditor` may read the log, which has the offsets of other groups only."""
    group, hidden = "rights-share", "rights-share-topic"
    kafka.create_topics({hidden: 1})
    kafka.allow("auditor", "DESCRIBE", group=group)
    main_class = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
    command = java_command(main_class, "--bootstrap-server", kafka.bootstrap, "--topic", hidden, "--group", group)
    child = Child(command, log=tmp_path / "log")
    try:
        with connect(kafka.bootstrap, timeout_ms=60_000) as cluster:

            def reads_all():
                cluster.renew()
                kafka.produce(hidden, [b"x"])
                (found,) = cluster.describe_groups([group])
                return [row.committed for row in getattr(found, "offsets", ()) if row.topic == hidden and row.committed]

            def is_empty():
                cluster.renew()
                return cluster.describe_group(group).state == "Empty"

            until(reads_all, lambda: f"it reads nothing: {child.log_tail()}", 60, every_s=0.5)
            child.kill()
            until(is_empty, "its session does not end", 90, every_s=0.5)
    finally:
        child.kill()
    kafka.produce(hidden, [b"x"] * 5)
    code, document, err = _unmet(as_user, "auditor", group, lambda err: "no DESCRIBE" in err)
    assert (code, document["data"]["lag"]) == (7, None), err


@pytest.mark.parametrize("prefix", ["c", "Z", "7"])
def test_a_right_on_a_prefix_is_none_on_all_topics(kafka, as_user, left, prefix):
    """A topic that nobody has named may begin with it."""
    group, _ = left
    kafka.allow("prefixed", "DESCRIBE", group=group)
    kafka.allow("prefixed", "DESCRIBE", topic=TOPIC)
    kafka.allow("prefixed", "DESCRIBE", topic=prefix, prefixed=True)
    for _ in range(3):
        _, document, _ = as_user("prefixed", "describe", group)
        assert document["data"]["groups"][0]["may_lack_offsets"]


def test_rights_on_prefixes_are_none_on_all_groups(kafka, as_user):
    """Without DESCRIBE on the cluster, so that others are left out of lists."""
    kafka.allow("grouped", "DESCRIBE", group=GROUP)
    for first in "0123456789abcdef":
        kafka.allow("grouped", "DESCRIBE", group=first, prefixed=True)
    _, document, err = as_user("grouped", "list")
    assert f"warning: {INVISIBLE}" in err
    assert any(text.startswith(INVISIBLE) for text in document["warnings"])


def test_offsets_that_a_login_may_not_see_are_not_said_to_be_missing(as_user, left):
    group, _ = left
    unseen = f"this login may not see the offset for {TOPIC}[0] and 5 more"
    code, _, err = _unmet(as_user, "viewer", group, lambda err: unseen in err)
    assert (code, "no committed offset" in err) == (7, False)
    assert unseen in err
    for words in (["simulate-bounce", group, "--all"], ["drain", group, "--client-id", "*"]):
        code, document, _ = as_user("viewer", *words, "--restart-time", "1m", "--session-timeout", "6s", "--draws", "2")
        text = json.dumps(document)
        assert (code, "the group has no committed offsets" in text) == (0, False)
        assert "it is not known whether the group has committed offsets" in text


def test_a_doctor_that_could_not_look_finds_nothing_and_is_not_green(as_user, kafka):
    """Without READ on __consumer_offsets there are checks that cannot run; without any right there are no groups."""
    code, document, err = as_user("nobody", "doctor", "--window", "0s")
    assert (code, document["data"]["groups"]) == (4, [])
    assert [one["code"] for one in document["errors"]] == ["AUTHORIZATION"]
    assert "error: no group is visible: without DESCRIBE on Cluster 'kafka-cluster'" in err
    for words in ((), ("--check", "duplicate-instance-id")):
        code, document, err = as_user("viewer", "doctor", PODS, "--window", "0s", "--fail-on", "error", *words)
        assert (code, document["data"]["findings"] if words else []) == (7, [])
        assert [one["code"] for one in document["errors"]] == ["PARTIAL"]
        assert "duplicate-instance-id" in err
        assert "no READ on Topic '__consumer_offsets'" in err
    code, _, err = as_user("viewer", "doctor", PODS, "--window", "0s", "--check", "away-members")
    assert (code, err) == (
        0,
        f"warning: no DESCRIBE on Topic '{TOPIC}': its partition count, offsets and lag are unknown\n",
    )


@pytest.mark.parametrize(
    ("words", "gate"),
    [
        (["list", "--match", f"{GROUP}*"], None),
        (["describe", "--all-groups"], None),
        (["top", "--once"], None),
        (["export", "--findings-every", "0s"], None),
        (["delete-groups", "--match", f"{GROUP}*", "--dry-run", "--guard-window", "0s"], None),
        (["drain", "--client-id", "*", "--draws", "2", "--restart-time", "5s"], ["--fail-if-moves", "1000000"]),
        (["doctor", "--window", "0s", "--check", "idle-members", "--fail-on", "never"], ["--fail-on", "error"]),
        (["doctor", "--match", f"{GROUP}*", "--window", "0s", "--fail-on", "never"], ["--fail-on", "error"]),
        (["watch", "--match", f"{PODS}*", "--settle", "500ms", "--timeout", "3s"], ["--until", "stable"]),
    ],
    ids=lambda value: None if value is None else "-".join(value)[:40],
)
def test_a_login_that_sees_some_groups_is_told_that_there_may_be_others(as_user, words, gate):
    """Brokers leave out groups without DESCRIBE and say nothing. No gate over such a list is green."""
    code, document, err = as_user("viewer", *words)
    assert code == (6 if words[0] == "delete-groups" else 0), err  # groups with members are not deleted
    assert any(text.startswith(INVISIBLE) for text in document["warnings"])
    assert f"warning: {INVISIBLE}" in err
    if gate is not None:
        code, document, err = as_user("viewer", *words, *gate)
        assert code in (4, 7), err
        assert any(one["message"].startswith(INVISIBLE) for one in document["errors"])
        assert f"error: {INVISIBLE}" in err
    assert INVISIBLE not in as_user("operator", *words, *(gate or ()))[2]  # has DESCRIBE on the cluster


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["simulate-bounce", GROUP, "--all", "--restart-time", "5s", "--draws", "2", "--fail-if-moves", "0"], 7),
        (["simulate-bounce", GROUP, "--all", "--restart-time", "5s", "--draws", "2", "--fail-if-rebalances", "9"], 7),
        (["drain", GROUP, "--client-id", "*", "--restart-time", "5s", "--draws", "2", "--fail-if-moves", "0"], 7),
        (["plan", GROUP, "--draws", "1", "--budget", "10ms", "--max-duration", "10h"], 7),
        ([*CLUSTER_COMMANDS["rollout"], "--restart-time", "5s", "--fail-if-moves", "0"], 6),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_a_gate_is_not_green_if_it_rests_on_what_had_to_be_assumed(as_user, words, code):
    """Without DESCRIBE on the topic, there may be any number of partitions besides those that are assigned; without
    DESCRIBE_CONFIGS on the cluster, the group may be full."""
    found, document, err = as_user("viewer", *words)
    assert found == code, err
    (error,) = document["errors"]
    assert "assumes what could not be read" in error["message"]
    assert any(f"'{TOPIC}'" in fact for fact in error["facts"])
    assert f"the principal needs DESCRIBE on Topic '{TOPIC}'" in err
    assert as_user("viewer", *words[:-2])[0] == 0  # without a limit, a warning is enough
    found, document, err = as_user("operator", *words)
    assert (found, document["errors"][0]["facts"]) == (code, ["the broker's group.max.size"])
    assert "the principal needs DESCRIBE_CONFIGS on Cluster" in err
    assert as_user("operator", *words, "--set", "group.max.size=9")[0] == 0


def test_metrics_of_a_login_that_sees_no_group(as_user, kafka, capsys):
    """A cluster without groups and a login without rights must not look alike."""
    export = ["export", "--findings-every", "0s"]

    def values(document, name):
        families = [family for family in document["data"]["families"] if family["name"] == name]
        return [sample["value"] for family in families for sample in family["samples"]]

    code, document, err = as_user("nobody", *export)
    assert (code, [one["code"] for one in document["errors"]]) == (4, ["AUTHORIZATION"])
    assert "no group is visible" in err
    assert values(document, "kgm_collection_errors") == [1]
    assert values(document, "kgm_log_readable") == []  # nothing was read
    for words in ([], [GROUP]):
        code, document, err = as_user("viewer", *export, *words)  # has no READ on __consumer_offsets
        assert (code, values(document, "kgm_log_readable")) == (0, [0])
        assert (INVISIBLE in err) == (words == [])
    assert run([*export, GROUP, "-b", kafka.bootstrap, "-o", "json"]) == 0
    assert values(json.loads(capsys.readouterr().out), "kgm_log_readable") == [1]


def test_metrics_show_the_checks_that_a_login_cannot_make(as_user, kafka, capsys):
    """No findings of these say nothing. The viewer has no READ on `__consumer_offsets`."""

    def not_run(document):
        (family,) = [one for one in document["data"]["families"] if one["name"] == "kgm_checks_not_run"]
        return [sample["labels"]["check"] for sample in family["samples"]]

    assert "duplicate-instance-id" in not_run(as_user("viewer", "export", GROUP)[1])
    assert run(["export", GROUP, "-b", kafka.bootstrap, "-o", "json"]) == 0
    assert not_run(json.loads(capsys.readouterr().out)) == []


def test_config_test(as_user):
    def asked(user, *arguments):
        code, document, err = as_user(user, "config", "test", *arguments)
        checks = document["data"]["checks"]
        assert [check["step"] for check in checks[:6]] == ["name", "connect", "tls", "versions", "sasl", "broker"]
        assert {check["result"] for check in checks[:6]} == {"ok"}
        assert checks[2]["detail"].startswith("TLSv1.3")
        return code, [(check["where"].partition(" ")[0], check["result"]) for check in checks[6:]], err

    code, checks, err = asked("nobody")
    assert (code, checks) == (4, [("Cluster", "failed")])
    assert "the principal needs DESCRIBE on Cluster 'kafka-cluster', or on the groups" in err
    code, checks, err = asked("nobody", "-g", GROUP)
    assert (code, checks) == (4, [("Cluster", "limited"), ("Group", "failed")])
    assert f"the principal needs DESCRIBE on Group '{GROUP}'" in err
    assert asked("viewer", "-g", GROUP) == (0, [("Cluster", "limited"), ("Group", "limited")], "")
    assert asked("operator", "-g", GROUP) == (0, [("Cluster", "ok"), ("Group", "ok")], "")


@pytest.mark.parametrize(
    ("listener", "wrong", "step", "code"),
    [
        ("SASL_SSL", {"bootstrap.servers": "no-such-host.invalid:1"}, "name", 5),
        ("SASL_SSL", {"bootstrap.servers": "127.0.0.1:1"}, "connect", 5),
        ("SASL_SSL", {"ssl.truststore.location": "stranger"}, "tls", 4),
        ("SSL", {"security.protocol": "PLAINTEXT"}, "versions", 5),
        ("SASL_SSL", {"sasl.jaas.config": jaas("SCRAM-SHA-512", "operator", "x")}, "sasl", 4),
        ("SASL_SSL", {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas("PLAIN", "operator", "x")}, "sasl", 4),
    ],
)
def test_config_test_names_the_step_that_failed(kafka, write, capsys, listener, wrong, step, code):
    if "ssl.truststore.location" in wrong:
        wrong = {"ssl.truststore.location": str(kafka.certificates.other_ca_file)}
    assert run(["config", "test", "-o", "json", "--command-config", write(kafka.settings(listener) | wrong)]) == code
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert [(check["step"], check["result"]) for check in document["data"]["checks"]][-1] == (step, "failed")
    assert captured.err.startswith("error: ")
    assert "hint: " in captured.err


def test_the_wrong_cluster_is_refused(kafka, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "xdg/kgm"
    folder.mkdir(parents=True)
    lines = [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in kafka.settings("SASL_SSL").items()]
    (folder / "config.toml").write_text("\n".join(["[profiles.p]", 'expect_cluster_id = "another"', *lines]))
    (folder / "config.toml").chmod(0o600)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    for name in set(CLUSTER_COMMANDS) - {"config view"}:
        assert run([*CLUSTER_COMMANDS[name], "--profile", "p"]) == 6
        captured = capsys.readouterr()
        assert "not another: nothing was done" in captured.err
        assert CANARY not in captured.out + captured.err
    text = (folder / "config.toml").read_text().replace("another", kafka._cluster_id)
    (folder / "config.toml").write_text(text)
    assert run(["list", "--profile", "p"]) == 0
