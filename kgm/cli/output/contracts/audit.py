"""The JSON of `kgm audit`."""

from __future__ import annotations

from typing import Any, Final

FORMS: Final[dict[str, dict[str, Any]]] = {
    "audit": {
        "file": "str",
        "torn_lines": "int",
        "problems": ["str"],
        "removals": [
            {
                "run": "str",
                "action": "str",
                "time": "str",
                "operator": "str?",
                "uid": "int?",
                "host": "str?",
                "pid": "int?",
                "cluster_id": "str?",
                "bootstrap": "str?",
                "group_id": "str?",
                "topic": "str?",
                "offsets": [{"topic": "str", "partition": "int", "committed": "int"}],
                "group_instance_id": "str?",
                "member_id": "str?",
                "client_id": "str?",
                "client_host": "str?",
                "reason": "str?",
                "verdict": "str?",
                "evidence": ["str"],
                "result": "str",
                "error": "str?",
                "note": "str?",
                "finished_at": "str?",
            }
        ],
    }
}
