"""Where is LeaveGroup? Each API is in the file of its name, which opens with the versions that are served."""

import importlib
import pkgutil
import re

import pytest

import kgm.server.apis
from kgm.protocol.apis import API, ApiKey
from kgm.server.apis.table import HANDLERS

FOLDERS = [module.name for module in pkgutil.iter_modules(kgm.server.apis.__path__) if module.ispkg]
MODULES = {
    module.name: f"kgm.server.apis.{folder}.{module.name}"
    for folder in FOLDERS
    for module in pkgutil.iter_modules(importlib.import_module(f"kgm.server.apis.{folder}").__path__)
}


def file_name(key):
    """LeaveGroup is in leave_group.py."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", API[key].name).lower()


@pytest.mark.parametrize("key", HANDLERS, ids=lambda key: API[key].name)
def test_an_api_is_in_the_file_of_its_name_with_its_versions(key):
    module = importlib.import_module(MODULES[file_name(key)])
    assert HANDLERS[key].__module__ == module.__name__
    info = API[key]
    assert module.__doc__.startswith(f"{info.name} v{info.min_version}-{info.max_version}: ")


def test_every_file_with_a_handler_is_served():
    handlers = {name for name, path in MODULES.items() if hasattr(importlib.import_module(path), "handle")}
    assert handlers == {file_name(key) for key in HANDLERS} - {file_name(ApiKey.API_VERSIONS)}


def test_the_folders_are_named_in_the_index():
    for folder in FOLDERS:
        assert re.search(rf"\b{folder}:\s", kgm.server.apis.__doc__), folder
