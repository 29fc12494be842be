"""The JSON of `kgm config view`, `kgm config list` and `kgm config test`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kgm.model.forms.json_form import as_json

if TYPE_CHECKING:
    from kgm.client.connection_test import ConnectionCheck

SETTING: Final = {"key": "str", "value": "str?", "secret": "bool", "origin": "str"}
_CHECK: Final = {
    "step": "str",
    "where": "str",
    "result": "str",
    "detail": "str?",
    "took_ms": "int?",
    "code": "str?",
    "kafka_versions": (["str"], None),
}
FORMS: Final[dict[str, dict[str, Any]]] = {
    "config-view": {
        "profile": "str?",
        "settings": [SETTING],
    },
    "config-list": {
        "file": "str",
        "profiles": [
            {
                "name": "str",
                "bootstrap_server": "str?",
                "expect_cluster_id": "str?",
                "command_config": "str?",
                "default": "bool",
            }
        ],
    },
    "config-test": {
        "security_protocol": "str",
        "checks": [_CHECK],
    },
}


def check_json(check: ConnectionCheck) -> dict[str, Any]:
    """An entry of `data.checks` of `config test`."""
    own = {
        "detail": check.detail or None,
        "code": None if check.error is None else check.error.json_code,
        "kafka_versions": [str(version) for version in check.kafka_versions] if check.kafka_versions else None,
    }
    return as_json(check, _CHECK, own)
