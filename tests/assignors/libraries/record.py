"""Records what client libraries answer: `python -m tests.assignors.libraries.record` writes tests/vectors/libraries."""

from __future__ import annotations

import json
import sys

from tests.assignors.groups import Answer, Case
from tests.assignors.libraries.cases import BY_MAP_ORDER, PAIRS, RECORDED, answers, cases_of, without_empty
from tests.assignors.libraries.oracle import VERSIONS, LibraryOracle

EACH = 50


#: Where an assignor depends on the order of Go maps: the most orders that a case may have, and how often it is asked.
MOST_ORDERS, ASKED = 60, 12


def _line(case: Case, expected: Answer | list[Answer]) -> str:
    return json.dumps({**case, "expected": expected}, separators=(",", ":"))


def _distinct(oracle: LibraryOracle, case: Case) -> list[Answer]:
    """The distinct answers of the library when it is asked repeatedly."""
    found = {json.dumps(without_empty(oracle.ask(case)["assignment"], case), sort_keys=True) for _ in range(ASKED)}
    return [json.loads(each) for each in sorted(found)]


def main(names: list[str]) -> None:
    """names: libraries to record; all if empty."""
    for library in names or VERSIONS:
        oracle, other = LibraryOracle(library), LibraryOracle(library, hash_seed=1)
        lines = []
        for _, assignor in [pair for pair in PAIRS if pair[0] == library]:
            answered: list[str] = []
            for case in cases_of(library, assignor, 0, EACH * 4):
                if len(answered) == EACH:
                    break
                if (library, assignor) in BY_MAP_ORDER:
                    if answers(case, MOST_ORDERS) is not None:
                        answered.append(_line(case, _distinct(oracle, case)))
                    continue
                said = oracle.ask(case)
                if "error" not in said and other.ask(case) == said:
                    answered.append(_line(case, without_empty(said["assignment"], case)))
            if len(answered) < EACH:
                raise SystemExit(f"{library} {assignor} has answered {len(answered)} cases only")
            lines += answered
        oracle.close()
        other.close()
        (RECORDED / f"{library}.jsonl").write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main(sys.argv[1:])
