"""Tables without colours are drawn column by column, and look as if they were drawn row by row."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kgm.cli.output import table_text
from kgm.cli.output.table_text import TableStyle, cells, table_lines

TEXTS = st.one_of(st.text(alphabet="ab -", max_size=6), st.text(alphabet="a\u4e2d\u0301 e\u0301\uff21", max_size=5))


@given(st.data())
def test_lines_by_column_are_lines_by_row(data):
    count = data.draw(st.integers(1, 4))
    row = st.lists(TEXTS, min_size=count, max_size=count)
    titles, rows = data.draw(row), data.draw(st.lists(row, max_size=6))
    right = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    style = TableStyle(headers=data.draw(st.booleans()) or not rows)
    head = [titles] if style.headers else []
    widths = [max(map(cells, column)) for column in zip(*head, *rows, strict=True)]
    by_row = table_text._lines(head, rows, widths, right, style)
    assert table_lines(titles, rows, right, style) == by_row
