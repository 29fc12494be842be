"""Text that people type or read: durations, braces, wording, and foreign strings made safe to show."""
