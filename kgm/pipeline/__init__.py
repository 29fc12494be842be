"""Spark, thin: sessions, sources, tables and jobs around the functions of `kgm.history`.

Nothing is decoded or inferred in here: a job reads, hands Arrow batches to a function of the history that knows
nothing of Spark, and writes what comes out. PySpark comes with the extra `spark`, and nothing else in kgm imports it.
"""
