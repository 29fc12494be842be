"""Keeps tests from reading or changing the profiles and the cache of the user who runs them."""

import pytest

from kgm.cli.completion import cache


@pytest.fixture(autouse=True)
def _no_profiles(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "no-profiles"))
    monkeypatch.delenv("KGM_PROFILE", raising=False)


@pytest.fixture(autouse=True)
def _no_cache_of_names(tmp_path_factory, monkeypatch):
    real, own = cache.folder, str(tmp_path_factory.getbasetemp() / "names")
    monkeypatch.setattr(cache, "folder", lambda environ: real(environ) if environ.get("XDG_CACHE_HOME") else own)
