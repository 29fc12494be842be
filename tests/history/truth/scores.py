"""Counts how often verdicts agree with what really happened."""

import math
from collections import Counter, defaultdict

#: How often, at least, a verdict of each confidence must be right.
LEAST = {"certain": 0.95, "likely": 0.8}
#: How often the documentation promises that it is right.
PROMISED = {"certain": 0.99, "likely": 0.9}


def interval(right, total, z=1.96):
    """Wilson's score interval of a share, by default the 95 % interval."""
    share, width = right / total, z * z / total
    middle = share + width / 2
    half = z * math.sqrt(share * (1 - share) / total + width / (4 * total))
    return max(0.0, (middle - half) / (1 + width)), min(1.0, (middle + half) / (1 + width))


class Scores:
    """verdicts: by cause and confidence, how many are right and how many are wrong. done: by kind of step, how often its
    cause was found and how often not. wrong: what to print about the verdicts that are wrong."""

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

    def counts(self, confidence):
        """How many verdicts of a confidence are right and how many wrong, over all causes."""
        return sum((each for (_, sure), each in self.verdicts.items() if sure == confidence), Counter())

    def share(self, confidence):
        """The share of verdicts of a confidence that are right, over all causes."""
        counts = self.counts(confidence)
        return counts[True] / counts.total()

    def calibration(self):
        """What is promised for each confidence next to what was measured, as a Markdown table."""
        lines = ["| confidence | promised | measured | right | of |", "|---|---|---|---|---|"]
        for confidence in ("certain", "likely", "possible"):
            counts = self.counts(confidence)
            if counts.total():
                low, high = interval(counts[True], counts.total())
                promised = f"at least {PROMISED[confidence]:g}" if confidence in PROMISED else "nothing"
                measured = f"{counts[True] / counts.total():.3f} ({low:.3f} to {high:.3f})"
                lines.append(f"| {confidence} | {promised} | {measured} | {counts[True]} | {counts.total()} |")
        return "\n".join(lines)

    def table(self):
        lines = [f"{'verdict':24}{'confidence':12}{'right':>6}{'of':>5}  precision"]
        for (cause, confidence), counts in sorted(self.verdicts.items()):
            low, high = interval(counts[True], counts.total())
            lines.append(
                f"{cause:24}{confidence:12}{counts[True]:6}{counts.total():5}  {self.precision(cause, confidence):.2f}"
                f" ({low:.2f} to {high:.2f})"
            )
        if self.done:
            lines.append(f"{'done':36}{'found':>6}{'of':>5}  recall")
        for kind, counts in sorted(self.done.items()):
            lines.append(f"{kind:36}{counts[True]:6}{counts.total():5}  {counts[True] / counts.total():.2f}")
        return "\n".join(lines)

    def broken_promises(self):
        """The confidences whose verdicts are right less often than is promised, beyond chance."""
        counts = {confidence: self.counts(confidence) for confidence in PROMISED}
        return [
            confidence
            for confidence, each in counts.items()
            if each.total() and interval(each[True], each.total())[1] < PROMISED[confidence]
        ]

    def check(self):
        """Fail if verdicts of a confidence are right less often than `LEAST` says."""
        short = {
            key: self.precision(*key)
            for key, counts in self.verdicts.items()
            if counts.total() and self.precision(*key) < LEAST.get(key[1], 0)
        }
        assert not short, "\n".join([str(short), self.table(), *self.wrong])
