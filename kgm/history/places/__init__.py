"""Where the files of a history are: a directory of this machine, or an object store or HDFS that a URI names.

`place` turns what a user typed into a `pathlib.Path` or a `RemotePath`, which has those of its methods that a history
needs, so that what reads files need not know where they are. `file_systems` opens them through `pyarrow.fs`, which has
S3, Google Cloud Storage, Azure and HDFS in its wheel and reads Parquet from them in C++; fsspec would need a package
for each of them, and none of what is done here needs more than it has: to list, to read, to delete, and to put an
object that is there as a whole or not at all.

Credentials come from where each store's tools take them: environment, profiles, the machine's or the pod's role. A URI
has none, since others on the machine can read a command line."""
