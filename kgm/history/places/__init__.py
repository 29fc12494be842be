"""Where the files of a history are: a directory on this machine, or an object store or HDFS named by a URI.

`place` turns what a user typed into a `pathlib.Path` or a `RemotePath`, which has the `Path` methods that a history
needs, so that code that reads files need not know where they are. `file_systems` opens them through `pyarrow.fs`, which
has S3, Google Cloud Storage, Azure and HDFS in its wheel and reads Parquet from them in C++; fsspec would need a
package for each of them, and nothing here needs more than pyarrow offers: listing, reading, deleting, and putting an
object so that it exists either completely or not at all.

Credentials come from where each store's tools take them: environment, profiles, the machine's or the pod's role. A URI
never contains any, because others on the machine can read a command line."""
