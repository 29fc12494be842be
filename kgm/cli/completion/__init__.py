"""Names that a shell completes."""
