"""From the bytes of segments and raw records to columns, and to JSON."""
