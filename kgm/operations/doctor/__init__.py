"""What is wrong with groups, or soon will be.

`diagnosis` asks a cluster for everything that is known about each group (`group_facts`), twice where a second look
shows more, and runs the checks: `identity` (who the members are), `assignment` (who owns what), `activity` (state and
committed offsets), `recent_records` (what the coordinator wrote recently), `history_findings` (a built history). A
check is a pure function from facts to findings (`findings`) that returns nothing when the facts are missing."""
