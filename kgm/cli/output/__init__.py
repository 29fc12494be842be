"""What a command shows: tables, JSON and its schemas, progress, pages."""
