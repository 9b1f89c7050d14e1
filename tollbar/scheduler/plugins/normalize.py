"""Bringing the scores of all Nodes into 0 to MAX_SCORE.

Source: DefaultNormalizeScore in pkg/scheduler/framework/plugins/helper.
"""

import numpy as np

from tollbar.scheduler.framework.interface import MAX_SCORE, Scores


def normalize(scores: Scores, *, reverse: bool = False) -> None:
    """Scale scores that are not negative so that the highest is MAX_SCORE, in place.

    With `reverse` the highest gets 0, and MAX_SCORE is for a score of 0.
    """
    highest = scores.max(initial=0)
    if highest:
        scores *= MAX_SCORE
        scores //= highest
    if reverse:
        np.subtract(MAX_SCORE, scores, out=scores)
