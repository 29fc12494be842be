"""Tables of a history on disk or in memory, and the questions that are put to them."""
