"""Placeholders of Kafka's config providers."""

import pytest

from kgm.model.errors import MissingFileError, UsageError
from kgm.operations.settings.config_providers import resolve_placeholders
from kgm.operations.settings.loading import load_settings
from tests.kafka.secured import CANARY

PACKAGE = "org.apache.kafka.common.config.provider."
PROVIDERS = {
    "config.providers": "env, file,dir", "config.providers.env.class": f"{PACKAGE}EnvVarConfigProvider",
    "config.providers.file.class": f"{PACKAGE}FileConfigProvider",
    "config.providers.dir.class": f"{PACKAGE}DirectoryConfigProvider",
}  # fmt: skip


def test_the_providers_of_kafka(tmp_path):
    (tmp_path / "secrets").write_text("a=1\nkey=s3\n")
    found = {
        "x": "-${env:A}-${file:" + f"{tmp_path}/secrets" + ":key}-${other:x}-",
        "y": "${dir:" + str(tmp_path) + ":secrets}",
        "z": "plain",
    }
    assert resolve_placeholders(PROVIDERS | found, "f", {"A": "${env:B}", "B": "no"}) == {
        "x": "-${env:B}-s3-${other:x}-", "y": "a=1\nkey=s3\n", "z": "plain",
    }  # fmt: skip
    assert resolve_placeholders(found, "f", {}) == found


@pytest.mark.parametrize("value", ["${env:NONE}", "${file:PATH/secrets:none}", "${dir:PATH:none}", "${dir:PATH:../x}"])
def test_a_missing_key_is_named(tmp_path, value):
    (tmp_path / "secrets").write_text(f"a={CANARY}")
    value = value.replace("PATH", str(tmp_path))
    with pytest.raises(MissingFileError, match="does not exist") as caught:
        resolve_placeholders(PROVIDERS | {"sasl.password": value}, "client.properties", {})
    assert caught.value.message.startswith("sasl.password (client.properties): ${")
    assert CANARY not in caught.value.message


def test_limits(tmp_path):
    limited = PROVIDERS | {"config.providers.env.param.allowlist.pattern": "KAFKA_.*", "x": "${env:KAFKA_A}"}
    assert resolve_placeholders(limited, "f", {"KAFKA_A": "1"}) == {"x": "1"}
    with pytest.raises(MissingFileError):
        resolve_placeholders(limited | {"x": "${env:A}"}, "f", {"A": "1"})
    for name in ("file", "dir"):
        fenced = PROVIDERS | {
            f"config.providers.{name}.param.allowed.paths": str(tmp_path / "in"),
            "x": "${" + f"{name}:{tmp_path}/in/../out" + ":k}",
        }
        with pytest.raises(UsageError, match="does not allow"):
            resolve_placeholders(fenced, "f", {})
    with pytest.raises(UsageError, match="not one of Kafka's own config providers"):
        resolve_placeholders({"config.providers": "v", "config.providers.v.class": "com.example.Vault"}, "f", {})


def test_in_a_properties_file(tmp_path):
    path = tmp_path / "client.properties"
    lines = [
        *(f"{key}={value}" for key, value in PROVIDERS.items()),
        "sasl.password=${env:PASSWORD}",
        "sasl.username=u",
    ]
    path.write_text("\n".join(lines))
    path.chmod(0o644)  # nothing secret is in it
    loaded = load_settings(properties_file=str(path), environment={"PASSWORD": CANARY})
    assert dict(loaded.client) == {"sasl.password": CANARY, "sasl.username": "u"}
    assert loaded.warnings == ()
