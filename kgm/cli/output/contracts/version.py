"""The JSON of `kgm version`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kgm.protocol.apis import ApiInfo

FORMS: Final[dict[str, dict[str, Any]]] = {
    "version": {
        "version": "str",
        "python": {"version": "str", "implementation": "str"},
        "platform": "str",
        "extras": [{"name": "str", "installed": "bool", "packages": [{"name": "str", "version": "str?"}]}],
        "protocol": {
            "kafka_release": "str",
            "apis": [{"name": "str", "key": "int", "min_version": "int", "max_version": "int"}],
        },
    }
}


def extra_json(name: str, installed: bool, versions: Mapping[str, str | None]) -> dict[str, Any]:  # noqa: FBT001
    """An entry of `data.extras`."""
    packages = [{"name": package, "version": version} for package, version in versions.items()]
    return {"name": name, "installed": installed, "packages": packages}


def api_json(key: int, info: ApiInfo) -> dict[str, Any]:
    """An entry of `data.protocol.apis`."""
    return {"name": info.name, "key": key, "min_version": info.min_version, "max_version": info.max_version}
