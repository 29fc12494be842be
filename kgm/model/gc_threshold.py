"""How often Python looks for cycles."""

import gc


def collect_rarely() -> None:
    """For a process with very many objects and hardly any cycles, as those of the `kgm` command and its workers are:
    looking as often as Python does by default costs an eighth of a `describe` of thousands of members."""
    gc.set_threshold(50_000, 20, 20)
