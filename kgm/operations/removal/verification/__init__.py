"""What shows that a removal may still be sent, and its outcome."""
