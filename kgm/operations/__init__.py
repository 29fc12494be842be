"""What an operator does: remove members, watch, diagnose, simulate. No typer, no rich, no prints."""
