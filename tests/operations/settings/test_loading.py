"""Where the settings of a Kafka client come from, which one wins, and what is warned about."""

from __future__ import annotations

import os

import pytest

from kgm.model.errors import MissingFileError, RefusedError, UsageError
from kgm.operations.settings.loading import ClientSettings, Setting, load_settings
from tests.kafka.secured import CANARY


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty XDG_CONFIG_HOME; `home("...")` writes config.toml."""
    monkeypatch.delenv("KGM_PROFILE", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    folder = tmp_path / "xdg/kgm"
    folder.mkdir(parents=True)

    def write(text, mode=0o600):
        (folder / "config.toml").write_text(text)
        (folder / "config.toml").chmod(mode)
        return folder / "config.toml"

    return write


def test_missing_profiles(home):
    with pytest.raises(MissingFileError, match=r"profile prod: file .*config\.toml does not exist"):
        load_settings(profile="prod")
    home("[profiles.prod]\n[profiles.other]")
    with pytest.raises(MissingFileError, match=r"no \[profiles.prd\]") as caught:
        load_settings(profile="prd")
    assert caught.value.facts == ("profiles: other, prod",)
    home("profiles = 1")
    with pytest.raises(MissingFileError, match=r"no \[profiles\.x"):
        load_settings(profile="x")


def test_a_broken_file_shows_no_value(home):
    home(f"[profiles.prod]\nsasl.password = {CANARY}")
    with pytest.raises(UsageError, match=r"is not valid TOML: error at line 2") as caught:
        load_settings(profile="prod")
    assert CANARY not in caught.value.message


def test_secrets_of_the_environment(home):
    loaded = load_settings(
        environment={"KGM_SASL_PASSWORD": CANARY, "KGM_ALLOW_PLAINTEXT_PASSWORD": "true", "KGM_SSL_KEY_PEM": ""}
    )
    assert dict(loaded.client) == {"sasl.password": CANARY, "kgm.allow.plaintext.password": "true"}
    assert loaded.client.origin("sasl.password") == "environment (KGM_SASL_PASSWORD)"
    assert CANARY not in repr(loaded)


def test_unknown_and_unsupported_settings_are_warned_about(home, tmp_path):
    config = tmp_path / "c"
    config.write_text(
        "sasl.mechansim=PLAIN\nssl.cipher.suites=x\nauto.offset.reset=earliest\ngroup.id=g\nlinger.ms=1\n"
    )
    assert load_settings(properties_file=str(config)).warnings == (
        f"line 1 ({config}): neither a Kafka client nor kgm has this setting; did you mean sasl.mechanism?",
        f"ssl.cipher.suites ({config}): kgm does not support this setting and ignores it",
    )
    toml = home('[profiles.p]\nsasl.mechansim = "PLAIN"')
    assert load_settings(profile="p").warnings == (
        f"sasl.mechansim (profile p ({toml})): neither a Kafka client nor kgm has this setting; did you mean sasl.mechanism?",
    )


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('[profiles.p]\ntimeot = "5s"', "there is no setting timeot", "did you mean timeout?"),
        ('[profiles.p]\nexpect-cluster-ids = "x"', "there is no setting expect_cluster_ids", "expect_cluster_id?"),
        ('[profiles.p]\nsasl_mechanism = "PLAIN"', "there is no setting sasl_mechanism", "sasl.mechanism?"),
        ('[profiles.p]\nzzz = "x"', "there is no setting zzz", "bootstrap_server, "),
        ('[profile.p]\ntimeout = "5s"', "there is no setting profile", "did you mean profiles?"),
        ('default_profil = "p"', "there is no setting default_profil", "did you mean default_profile?"),
        ('default_profile = ["a"]', "default_profile is not the name of a profile", "default_profile = "),
        ("a = " + "[" * 5_000 + "]" * 5_000, "is not valid TOML", None),
        ("[profiles.p]\ntimeout = " + "9" * 5_000, "is not valid TOML", None),
        ("[profiles.p]\n" + ".".join("a" * 3_000) + " = 1", "more than 30 nested tables", None),
    ],
)
def test_a_profile_that_cannot_be_meant_is_an_error_at_once(home, text, message, hint):
    home(text)
    with pytest.raises(UsageError) as caught:
        load_settings(profile=None if text.startswith("default_profile =") else "p")
    assert message in caught.value.message
    assert len(caught.value.message) < 300
    assert hint is None or hint in caught.value.hint


def test_secret_files_with_open_permissions_are_warned_about(home, tmp_path):
    config, key = tmp_path / "c", tmp_path / "k"
    config.write_text(f"sasl.password={CANARY}\nssl.key.location={key}\n")
    key.write_text("key")
    home(f'[profiles.p]\nsasl.password = "{CANARY}"')
    for path in (config, key):
        path.chmod(0o600)
    assert load_settings(properties_file=str(config), profile="p").warnings == ()
    for path in (config, key):
        path.chmod(0o640)
    toml = home(f'[profiles.p]\nsasl.password = "{CANARY}"', 0o604)
    warnings = load_settings(properties_file=str(config), profile="p").warnings
    assert sorted(warnings) == sorted(
        f"{path} contains secrets and is accessible to other users: chmod 600 {path}" for path in (config, key, toml)
    )
    config.write_text("sasl.username=u")
    assert load_settings(properties_file=str(config)).warnings == ()


def test_settings_are_a_mapping():
    settings = ClientSettings({"a": Setting(key="a", value=CANARY, origin="-X")})
    assert (len(settings), list(settings), settings["a"], settings.origin("a")) == (1, ["a"], CANARY, "-X")
    assert repr(settings) == "ClientSettings(['a'])"


@pytest.mark.parametrize(("mode", "is_mine", "why"), [
    (0o600, True, None), (0o644, True, None), (0o664, True, "its group may write it"), (0o602, True, "everyone may write it"),
    (0o600, False, "owned by another user"),
])  # fmt: skip
@pytest.mark.parametrize("where", ["profile", "properties"])
def test_a_command_from_a_file_that_others_write_is_not_run(home, tmp_path, mocker, where, mode, is_mine, why):
    """Whoever may write it would run programs as the operator."""
    if where == "profile":
        path = home('[profiles.a]\n"kgm.oauthbearer.token.command" = "echo x"\n', mode)
        options = {"profile": "a"}
    else:
        path = tmp_path / "c.properties"
        path.write_text("kgm.oauthbearer.token.command=echo x\n")
        path.chmod(mode)
        options = {"properties_file": str(path)}
    if not is_mine:
        os.chown(path, os.geteuid(), -1)
        real = os.stat

        def foreign(name, **how):
            found = list(real(name, **how))
            found[4] = os.geteuid() + 1 if str(name) == str(path) else found[4]
            return os.stat_result(found)

        mocker.patch("kgm.text.input_files.os.stat", foreign)
    if why is None:
        load_settings(**options)
        return
    with pytest.raises(RefusedError, match=f"which command kgm runs .*, and .*{why}"):
        load_settings(**options)
