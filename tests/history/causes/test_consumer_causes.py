"""Why the epoch of a consumer group rose; what really happened to groups is held against this in truth/."""

from dataclasses import replace

import pytest

from kgm.history.causes.consumer_causes import EpochContext, explain_epoch
from kgm.history.causes.verdict import Cause, Confidence

NOTHING = EpochContext(
    joined=(), returned=(), returning=(), departures=(), resubscribed=(), hashes=(7, 7), regex=False, assignor=False, empty=False,
    known=True, broken=False,
)  # fmt: skip


@pytest.mark.parametrize(
    ("hashes", "cause", "said"),
    [
        ((5, 7), Cause.METADATA, "changed"),
        ((0, 7), Cause.METADATA, "knew none"),
        ((7, 0), Cause.METADATA, "changed"),
        ((7, 7), Cause.UNKNOWN, "no record says why"),
        ((None, 7), Cause.UNKNOWN, "no record says why"),
    ],
)
def test_topics_that_changed_and_topics_that_came(hashes, cause, said):
    verdict = explain_epoch(replace(NOTHING, hashes=hashes))
    assert verdict.cause is cause
    assert (verdict.confidence is Confidence.CERTAIN) == (cause is Cause.METADATA)
    assert said in verdict.evidence[0]
