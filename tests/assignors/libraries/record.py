"""Records what client libraries answer: `python -m tests.assignors.libraries.record` writes tests/vectors/libraries."""

from __future__ import annotations

import json
import sys

from tests.assignors.libraries.cases import PAIRS, RECORDED, cases_of, without_empty
from tests.assignors.libraries.oracle import VERSIONS, LibraryOracle

EACH = 50


def main(names: list[str]) -> None:
    """names: of libraries; all if there are none."""
    for library in names or VERSIONS:
        oracle, other = LibraryOracle(library), LibraryOracle(library, hash_seed=1)
        lines = []
        for _, assignor in [pair for pair in PAIRS if pair[0] == library]:
            answered: list[str] = []
            for case in cases_of(library, assignor, 0, EACH * 4):
                said = oracle.ask(case)
                if "error" not in said and len(answered) < EACH and other.ask(case) == said:
                    expected = without_empty(said["assignment"], case)
                    answered.append(json.dumps({**case, "expected": expected}, separators=(",", ":")))
            if len(answered) < EACH:
                raise SystemExit(f"{library} {assignor} has answered {len(answered)} cases only: {said}")
            lines += answered
        oracle.close()
        other.close()
        (RECORDED / f"{library}.jsonl").write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main(sys.argv[1:])
