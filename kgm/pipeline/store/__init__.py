"""A store: a directory, or a place in an object store or HDFS that a URI names. All that is asked of any of them is
that a file that was put is there as a whole, that it is listed from then on, and that it can be deleted.

    DIR/kgm-store.json                                   version of this layout, format and cluster
    DIR/bronze/raw/*.parquet, _kgm_log/*.json            records, and the log of which files count
    DIR/{bronze/bad,silver,gold,carry}/.../pNNNNN-bNUMBER-WRITER-ATTEMPT.parquet
    DIR/builds/NUMBER-WRITER.json                        a complete build: progress, and its files of every table
    DIR/claims/WHAT-WRITER.json                          who captures or builds now

No file is written twice, except a claim by its owner. What is written counts from the put of one small file on that
names it, and what nothing names is not seen:

- A **capture** puts the files of a batch, then one entry of the log that names them and how far the source was read
  (`kgm.history.store.commit_log`): the two can never disagree, and a batch that died before its entry is read again.
- A **build** puts files of every table, then one manifest that names them and those of the last build that stay.
  Readers take the manifest with the highest NUMBER, of several the last by WRITER. So all tables change at once.

Neither needs a lock to be right. `pyarrow.fs` has no conditional put, and a lease alone cannot stop a writer that
sleeps through its end and then goes on. So nothing that such a writer does can hurt: the entries of two captures add
up, and a record in both is one (`commit_log.each_once`); a build that comes late has a lower NUMBER than the one that
overtook it, which fences it off, and learns that from the listing after its put (`layout.Store.finish`). Two builds of
one NUMBER both are whole, and made of records that stay; the next one has what either lacks.

A **claim** (`claims`) keeps two writers from doing the same work. It ends when its owner has not renewed it for a
while, by the clock of the store.

The two newest builds are kept, and older ones as long as somebody may read them who began before they were replaced.
What only older ones name is deleted, and so is what builds left that died. Files of captures that died go
when they are a day old and no entry names them, by the capture that holds the claim then; those that were not renamed
into place, in a directory or HDFS, go likewise. Nobody can know that their writer is gone for good: one that stood
still for so long in front of its entry looks for its files after it has put it, and takes the entry back if they are
gone (`bronze.Bronze`, `add` and `sweep`).

A directory has one thing more, for readers that take every file below DIR/silver and DIR/gold (`shown`): in the format
Parquet these are links to a directory of hard links to the files of the last build, and the files themselves are below
DIR/tables. `older` takes over directories that an older kgm wrote."""
