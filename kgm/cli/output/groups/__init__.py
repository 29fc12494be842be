"""Groups: their tables, and the objects that csv, tsv, ndjson and tables are made of."""
