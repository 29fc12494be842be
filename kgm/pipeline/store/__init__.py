"""A store: a directory, or a place in an object store or HDFS named by a URI. The only requirements for any of them are
that a file that was put exists completely, that it is listed from then on, and that it can be deleted.

    DIR/kgm-store.json                                   version of this layout, format and cluster
    DIR/bronze/raw/*.parquet, _kgm_log/*.json            records, and the log of which files count
    DIR/{bronze/bad,silver,gold,carry}/.../pNNNNN-bNUMBER-WRITER-ATTEMPT.parquet
    DIR/builds/NUMBER-WRITER.json                        a complete build: progress, and its files of every table
    DIR/claims/WHAT-WRITER.json                          who is capturing or building now

No file is written twice, except a claim by its owner. Written files count from the put of one small file that names
them, and files that nothing names are not seen:

- A **capture** puts the files of a batch, then one entry of the log that names them and how far the source was read
  (`kgm.history.store.commit_log`): the two can never disagree, and a batch that died before its entry is read again.
- A **build** puts files of every table, then one manifest that names them and those of the last build that remain.
  Readers take the manifest with the highest NUMBER, and among several the last by WRITER. So all tables change
  together.

Neither needs a lock to be correct. `pyarrow.fs` has no conditional put, and a lease alone cannot stop a writer that
sleeps past its end and then continues. So nothing that such a writer does can do harm: the entries of two captures add
up, and a record in both is one (`commit_log.each_once`); a build that comes late has a lower NUMBER than the one that
overtook it, which fences it off, and finds that out from the listing after its put (`layout.Store.finish`). Two builds
with the same NUMBER are both complete, and made of records that remain; the next one has what either lacks.

A **claim** (`claims`) keeps two writers from doing the same work. It ends when its owner has not renewed it for a
while, by the store's clock.

The two newest builds are kept, and older ones as long as a reader that started before they were replaced may still use
them. Files that only older ones name are deleted, and so are files left by builds that died. Files of captures that
died are deleted when they are a day old and no entry names them, by the capture that holds the claim then; likewise
files that were not renamed into place, in a directory or HDFS. No one can know that their writer is gone for good: a
writer that was suspended that long before its entry looks for its files after it has put the entry, and withdraws it if
they are gone (`bronze.Bronze`, `add` and `sweep`).

A directory has one thing more, for readers that take every file below DIR/silver and DIR/gold (`shown`): in the format
Parquet these are links to a directory of hard links to the files of the last build, and the files themselves are below
DIR/tables. `older` takes over directories that an older kgm wrote."""
