"""The garbage-collector threshold of the process."""

import gc


def collect_rarely() -> None:
    """Raise the threshold, for a process with many objects and few cycles, such as the `kgm` command and its workers:
    with Python's default, garbage collection takes an eighth of the time of a `describe` of thousands of members."""
    gc.set_threshold(50_000, 20, 20)
