"""Whoever runs the tests may have profiles of their own: none of them counts here."""

import pytest


@pytest.fixture(autouse=True)
def _no_profiles(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "no-profiles"))
    monkeypatch.delenv("KGM_PROFILE", raising=False)
