"""What has to be declared of each client library in the table, so that kgm recognizes it, plays it and runs its
assignors. docs/new-client-library.md says how to find it out."""

from __future__ import annotations

import pytest

from kgm.assignors.libraries import ASSIGNORS
from kgm.clients.table import CLIENTS, LIBRARIES
from kgm.model.client_library import JAVA, stated_library
from kgm.simulation.plan.client_library import Library, played_as
from kgm.simulation.play.client_profiles import PROFILES


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_of_the_table_is_played(name):
    played = played_as(stated_library(name))
    assert played is not None, (
        f"{name} is in kgm/clients/table.py, but not in the enum Library of kgm/simulation/plan/client_library.py: "
        "members of it would be played as Java's"
    )
    assert played in PROFILES, f"{played} has no profile in kgm/simulation/play/client_profiles.py"
    assert PROFILES[played].library is played


@pytest.mark.parametrize("name", [name for name in LIBRARIES if name != JAVA])
def test_a_library_of_the_table_has_assignors(name):
    assert ASSIGNORS.get(name), (
        f"{name} is in kgm/clients/table.py, but has no entry in ASSIGNORS of kgm/assignors/libraries/__init__.py: what "
        "its leaders assign would be taken for what Java's assign"
    )


@pytest.mark.parametrize("name", LIBRARIES)
def test_an_assignor_that_the_table_names_is_one_that_kgm_runs(name):
    traits = CLIENTS[name]
    named = {*traits.silent_leaders, *traits.like_java, *traits.varying, *traits.more_rounds}
    unknown = named - {*ASSIGNORS.get(name, named)}
    assert not unknown, f"the table names assignors of {name} that are not in ASSIGNORS"


def test_nothing_is_declared_of_a_library_that_is_not_in_the_table():
    for where, names in {"ASSIGNORS": {*ASSIGNORS}, "Library": {one.value for one in Library}}.items():
        assert names <= {*LIBRARIES}, f"{where} has a library that kgm/clients/table.py lacks: it is never recognized"
