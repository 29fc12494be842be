"""Counts how often verdicts agree with what really happened."""

from collections import Counter, defaultdict

#: How often, at least, a verdict of a confidence has to be right.
LEAST = {"certain": 0.95, "likely": 0.8}


class Scores:
    """verdicts: by cause and confidence, how many are right and how many are wrong. done: by kind of step, how often its
    cause was found and how often not. wrong: what to print of the verdicts that are wrong."""

    def __init__(self):
        self.verdicts = defaultdict(Counter)
        self.done = defaultdict(Counter)
        self.wrong = []

    def verdict(self, cause, confidence, right, *, about=None):
        """right: None if it is not known. about: printed with the scores if the verdict is wrong."""
        if right is not None:
            self.verdicts[cause, confidence][right] += 1
        if right is False:
            self.wrong.append(f"{cause}, {confidence}: {about}")

    def recall(self, kind, found):
        self.done[kind][found] += 1

    def precision(self, cause, confidence):
        counts = self.verdicts[cause, confidence]
        return counts[True] / counts.total()

    def share(self, confidence):
        """How often verdicts of a confidence are right, of all causes together."""
        counts = sum((each for (_, sure), each in self.verdicts.items() if sure == confidence), Counter())
        return counts[True] / counts.total()

    def table(self):
        lines = [f"{'verdict':24}{'confidence':12}{'right':>6}{'of':>5}  precision"]
        for (cause, confidence), counts in sorted(self.verdicts.items()):
            lines.append(
                f"{cause:24}{confidence:12}{counts[True]:6}{counts.total():5}  {self.precision(cause, confidence):.2f}"
            )
        if self.done:
            lines.append(f"{'done':36}{'found':>6}{'of':>5}  recall")
        for kind, counts in sorted(self.done.items()):
            lines.append(f"{kind:36}{counts[True]:6}{counts.total():5}  {counts[True] / counts.total():.2f}")
        return "\n".join(lines)

    def check(self):
        """Fail if verdicts of a confidence are right less often than `LEAST` says."""
        short = {
            key: self.precision(*key)
            for key, counts in self.verdicts.items()
            if counts.total() and self.precision(*key) < LEAST.get(key[1], 0)
        }
        assert not short, "\n".join([str(short), self.table(), *self.wrong])
