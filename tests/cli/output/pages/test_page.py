import pytest

from kgm.cli.output.pages.page import cut, document, element, facts, table, text, write
from kgm.model.errors import UsageError
from kgm.text.sanitize import clean
from tests.text.hostile import HOSTILE, hidden

from .reading import assert_stands_alone, tree

MARKUP = [
    "<script>alert(1)</script>", "</title><img src=x onerror=alert(1)>", '" onmouseover="x', "]]>", "<!--",
    "&lt;b&gt;", "&amp;", "'quoted'", "<svg/onload=1>", "</style><style>@import 'x'",
]  # fmt: skip


@pytest.mark.parametrize("name", [*MARKUP, *HOSTILE])
def test_a_name_is_text_wherever_it_stands(name):
    page = document(
        name,
        element("p", name, title=name),
        table([name], [[name]]),
        facts([(name, name)]),
        element("text", name, x=name),
    )
    assert_stands_alone(page)
    found = tree(page)
    shown = found.all("title")[0].text
    assert shown == found.all("p")[0].text == found.all("td")[0].text == found.all("dd")[0].text
    assert shown == found.all("p")[0].attributes["title"]
    assert shown.isprintable()
    assert shown == clean(name)
    assert shown == name or not hidden(shown)


def test_none_is_a_dash_and_numbers_are_text():
    assert (text(None), text(7), text(element("b", "x"))) == ("-", "7", "<b>x</b>")
    assert facts([("gone", None), ("there", 0)]) == "<dl><dt>there</dt><dd>0</dd></dl>"


def test_rows_that_are_cut_are_counted():
    rows, more = cut([(n,) for n in range(1_234)], 200)
    assert len(rows) == 200
    assert "1,034 more" in more
    assert cut([(1,)], 1)[1] == ""


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "report.html"
    write(str(target), "first")
    write(str(target), "second")
    assert target.read_text() == "second"
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(UsageError, match="cannot be written"):
        write(str(tmp_path / "nowhere" / "report.html"), "third")
    with pytest.raises(UsageError, match="cannot be written"):
        write(str(tmp_path), "third")
