"""Derived tables laid out as a build leaves them, for tests that query a store without Spark."""

import json

import pyarrow.parquet as pq

from kgm.history.store.manifest import MANIFEST


def write_store(path, tables, *, partitions=(), cluster="test-cluster", rows_in_group=100_000, unconfirmed_until=None):
    """DIR/silver/NAME/p00000-b000001.parquet and so on: a file for each partition of which a table has rows."""
    for name, table in tables.items():
        layer, _, rest = name.partition("_")
        directory = path / layer / rest
        directory.mkdir(parents=True)
        numbers = table.column("partition").to_numpy()
        for number in sorted(set(numbers.tolist())):
            part = table.filter(numbers == number)
            pq.write_table(part, directory / f"p{number:05}-b000001.parquet", row_group_size=rows_in_group)
    manifest = {
        "number": 1, "format": "parquet", "cluster": cluster, "schema_version": 1,
        "built_up_to": {str(number): 0 for number in partitions}, "records": {}, "rows": {},
        "unconfirmed_until": {str(number): at for number, at in (unconfirmed_until or {}).items()},
    }  # fmt: skip
    (path / MANIFEST).write_text(json.dumps(manifest))
    return path
