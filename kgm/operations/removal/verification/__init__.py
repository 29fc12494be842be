"""What shows that a removal may still be sent, and what became of it."""
