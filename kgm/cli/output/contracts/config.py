"""The JSON of `kgm config view`, `kgm config list` and `kgm config test`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kgm.cli.output.redaction import ShownSetting
    from kgm.client.connection_test import ConnectionCheck

FORMS: Final[dict[str, dict[str, Any]]] = {
    "config-view": {
        "profile": "str?",
        "settings": [{"key": "str", "value": "str?", "secret": "bool", "origin": "str"}],
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
        "checks": [
            {
                "step": "str",
                "where": "str",
                "result": "str",
                "detail": "str?",
                "took_ms": "int?",
                "code": "str?",
                "kafka_versions": (["str"], None),
            }
        ],
    },
}


def setting_json(setting: ShownSetting) -> dict[str, Any]:
    """An entry of `data.settings` of `config view`."""
    return {"key": setting.key, "value": setting.value, "secret": setting.is_secret, "origin": setting.origin}


def check_json(check: ConnectionCheck) -> dict[str, Any]:
    """An entry of `data.checks` of `config test`."""
    return {
        "step": check.step,
        "where": check.where,
        "result": check.result,
        "detail": check.detail or None,
        "took_ms": check.took_ms,
        "code": None if check.error is None else check.error.json_code,
        "kafka_versions": [str(version) for version in check.kafka_versions] if check.kafka_versions else None,
    }
