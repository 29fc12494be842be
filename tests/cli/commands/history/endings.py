"""How the commands of `kgm history` end: the cases that run in test_exit_codes, and that docs/exit-codes.md lists.

{segments}: real segments; {store}: their tables; {bad}: segments with records that cannot be read; {page}: a web
page in place of a segment; {none}: nothing."""

from tests.cli.ending import Ending

_QUESTIONS = {
    "rebalances": "", "explain": "k8-billing", "timeline": "k8-billing", "movement": "k8-billing", "offsets": "k8-billing",
    "churn": "",
    "zombies": "", "timeouts": "", "decode": "--partition 0", "verify": "",
    "simulate-fleet": "--match k8-billing --draws 1",
}  # fmt: skip
_RAW = ("decode", "verify")
_OF_A_GROUP = (
    "rebalances", "explain", "timeline", "movement", "offsets", "zombies", "timeouts", "simulate-fleet",
)  # fmt: skip


def endings():
    for name, words in _QUESTIONS.items():
        yield Ending(
            name, 0, "it is answered", f"{words} {'--source {segments}' if name in _RAW else '--store {store}'}"
        )
        yield Ending(name, 2, "no history is given", words)
        yield Ending(name, 2, "the directory is not there", f"{words} --source segments:{{none}}")
        if name in _RAW:
            yield Ending(name, 6, "the live topic is named", f"{words} --source kafka")
        else:
            yield Ending(name, 5, "no broker answers", f"{words} -b 127.0.0.1:1 --timeout 2s")
    for name in _OF_A_GROUP:
        yield Ending(name, 3, "the group is not in the history", "none-such --store {store}")
        yield Ending(
            name, 7, "the group is not in the part of the history that can be read", "none-such --source {bad}"
        )
    yield Ending("explain", 3, "the generation is not in the history", "k8-billing --generation 999 --store {store}")
    yield Ending("verify", 8, "something cannot be read, with --fail-if-unsound", "--source {bad} --fail-if-unsound")
    yield Ending("offsets", 2, "the retention is less than Kafka allows", "g --retention 10s --store {store}")
    yield Ending("churn", 2, "the URI has credentials", "--store s3://me:hidden@bucket/history")
    yield Ending("churn", 2, "the scheme is not supported", "--store ftp://host/history")
    yield Ending("build", 2, "no directory is given", "")
    yield Ending("build", 2, "the copy is not there", "--source segments:{none} --out {none}/store")
    yield Ending("capture", 2, "no source is given", "--out {none}/store")
    yield Ending("capture", 2, "the copy is not there", "--source segments:{none} --out {none}/store --once")
    yield Ending("capture", 2, "a segment is damaged", "--source segments:{page} --out {none}/store --once")


ENDINGS = list(endings())
