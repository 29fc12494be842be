"""docs/clients.md is current. `KGM_WRITE_DOCS=1` writes it again."""

import os

from tests.clients.page import PAGE, page


def test_the_page_is_current():
    if os.environ.get("KGM_WRITE_DOCS") == "1":
        PAGE.write_text(page())
    assert PAGE.read_text() == page(), "KGM_WRITE_DOCS=1 writes it again"
