"""Answers the questions that operators ask of a history, as typed results.

`source` opens a history: a built store, or a copy of raw records that is derived in this process. `explanation`
explains a group and one of its rebalances, with what it changed (`rebalance_effects`) and the commands to run next
(`next_steps`); `churn` ranks groups by rebalances; `offsets` shows what happened to committed offsets; `group_rows` has
the rest: rebalances, tenures, owners, alarms and advice. `raw_records` prints and verifies the records themselves,
`fleet_costs` simulates planned work on every group.

Importing this package needs neither numpy nor pyarrow; asking a question does (the extra `history`)."""

from kgm.operations.history.explanation import Explanation, explain, explain_group
from kgm.operations.history.source import History, HistorySource, open_history

__all__ = ["Explanation", "History", "HistorySource", "explain", "explain_group", "open_history"]
