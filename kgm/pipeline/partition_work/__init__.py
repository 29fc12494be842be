"""A build, partition by partition: what there is to do (`planning`), and a worker's part of it (`derivation`)."""
