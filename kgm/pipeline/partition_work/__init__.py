"""A build, partition by partition: what has to be done (`planning`), and a worker's part of it (`derivation`)."""
