"""Writes slices of a source into files of raw records, in this process or in Spark's workers: no record goes through
the JVM, and only `engine` here knows Spark, which is imported only if it is used."""
