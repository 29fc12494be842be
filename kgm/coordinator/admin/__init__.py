"""What administrators ask: describe, list, delete; and groups as plain values for reports."""
