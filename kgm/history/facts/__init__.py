"""Rows that are known of a group: ownership, tenures, restarts, alarms, advice."""
