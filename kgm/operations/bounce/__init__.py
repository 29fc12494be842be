"""Predict what a planned bounce would do to a group (`kgm simulate-bounce`). Nothing is changed anywhere.

group       where the group comes from: a live cluster, a snapshot, or made up
request     what an operator asks for, and the plan it translates to for a group
sinks       the groups of sink connectors that depend on a group of Connect workers
gates       the limits of an operator, and which of them a prediction exceeds
prediction  `simulate` and `predict_bounce`: scenarios side by side
"""
