"""Advice from a simulation: sentences that recommend a pace and compare it with the others.

House rules: a pace that waited for all jobs is better than any that gave some up. If every pace
gave up jobs, small differences in their number are chance, and the cost decides. Costs that
differ by less than 2 % count as equal.
"""

from textwrap import fill
from typing import Optional, Sequence, Tuple

from ...core.units import Limit
from ...drivers.simulation.figures import Figures
from .frontier import WIDTH
from .table import short_number

TIE = 1.02  # costs with a smaller ratio count as equal
FEW = 0.03  # a difference of this share of the jobs, given up or not, may be chance
BUSY = 0.8  # of the requests that the limit allows; the first and the last jobs leave some unused


def best_pace(all_figures: Sequence[Figures]) -> Optional[Figures]:
    """The pace to recommend: the first of the cheapest; None if no pace saw any job finish."""
    fewest = min(one.timed_out for one in all_figures)
    candidates = []
    for one in all_figures:
        allowed = fewest + _few_jobs(one) if fewest else 0
        if one.cost is not None and one.timed_out <= allowed:
            candidates.append(one)
    lowest = min(map(_cost, candidates), default=0.0)
    return next((one for one in candidates if _cost(one) <= TIE * lowest), None)


def recommend(
    all_figures: Sequence[Figures],
    limit: Optional[Limit] = None,
    causes: Sequence[str] = (),
    width: int = WIDTH,
) -> str:
    """Which pace to use, and why; `causes` may explain why jobs were given up."""
    best = best_pace(all_figures)
    rest = [one for one in all_figures if one is not best and one.cost is not None]
    explanation = ": " + " or ".join(causes) if causes else ""
    if best is None:
        text = "No pace saw any job finish%s" % explanation
    elif not best.timed_out:
        text = _recommend_complete(best, rest, limit)
    elif len(all_figures) == 1:
        text = "'%s' gave up %s%s" % (best.pace, _given_up_text(best), explanation)
    else:
        text = "Every pace gave up jobs%s. " % explanation + _recommend_incomplete(best, rest)
    return fill(text + ".", width) + "\n"


def _recommend_complete(best: Figures, rest: Sequence[Figures], limit: Optional[Limit]) -> str:
    """Why the best is a pace that waited for all jobs."""
    ratio = "%.2f times the optimum" % (best.cost_ratio or 0.0)
    if not rest:
        return "'%s' costs %s" % (best.pace, ratio)
    text = "Use '%s': " % (best.pace,)
    complete = [one for one in rest if not one.timed_out]
    if len(complete) < len(rest):
        text += "it is the cheapest pace that waits for all jobs, at %s" % ratio
    elif all(_is_tie(one, best) for one in rest):
        text += "at %s it is as good as any pace here" % ratio
        if limit is not None and all(_is_busy(one, limit) for one in rest):
            text += ", because the limit decides and not the pace"
        return text
    elif any(_cost(one) <= TIE * _cost(best) for one in complete):
        text += "at %s no other is cheaper by more than %.0f%%" % (ratio, 100 * (TIE - 1.0))
    else:
        text += "it costs least, %s" % ratio
    if complete:
        rival = min(complete, key=_cost)
        text += "; the next best, '%s', %s" % (rival.pace, _compare(rival, best))
    cheaper = [one for one in rest if _is_cheaper_and_nearly_complete(one, best)]
    if cheaper:
        rival = min(cheaper, key=_cost)
        text += "; '%s' gave up %s, but %s" % (
            rival.pace,
            _given_up_text(rival),
            _compare(rival, best),
        )
    return text


def _recommend_incomplete(best: Figures, rest: Sequence[Figures]) -> str:
    """Why the best is a pace that gave up jobs, as all of them did."""
    near = [one for one in rest if one.timed_out <= best.timed_out + _few_jobs(one)]
    has_tie = any(_cost(one) <= TIE * _cost(best) for one in near)
    text = "Use '%s' anyway: it gave up %s and " % (best.pace, _given_up_text(best))
    text += "is as cheap as any" if has_tie else "costs least"
    if len(near) < len(rest):
        text += " of those that gave up so few"
    if near:
        rival = min(near, key=_cost)
        text += "; the next best, '%s', gave up %d, %s" % (
            rival.pace,
            rival.timed_out,
            _compare(rival, best),
        )
    return text


def _is_tie(one: Figures, best: Figures) -> bool:
    return abs(_cost(one) / _cost(best) - 1.0) <= TIE - 1.0


def _is_cheaper_and_nearly_complete(one: Figures, best: Figures) -> bool:
    return 0 < one.timed_out <= _few_jobs(one) and TIE * _cost(one) < _cost(best)


def _is_busy(one: Figures, limit: Limit) -> bool:
    """Whether a pace used nearly all requests that the limit allowed, from first to last."""
    minutes = 1 + max(one.per_minute) - min(one.per_minute)
    return sum(one.per_minute.values()) >= BUSY * minutes * 60 * limit.polls / limit.per


def _few_jobs(one: Figures) -> float:
    return max(1.0, FEW * one.jobs)


def _cost(one: Figures) -> float:
    return one.cost or 0.0


def _given_up_text(one: Figures) -> str:
    return "%d of %d jobs" % (one.timed_out, one.jobs) if one.jobs > 1 else "its only job"


def _compare(one: Figures, best: Figures) -> str:
    """The polls and the notice delay of a pace, compared with the best."""
    polls = short_number(one.polls_per_job)
    best_polls = short_number(best.polls_per_job)
    is_same = abs(one.polls_per_job / best.polls_per_job - 1.0) < 0.02 or polls == best_polls
    text = "makes as many polls"
    if not is_same:
        text = "makes %s polls per job instead of %s" % (polls, best_polls)
    delay = short_number(one.mean)
    best_delay = short_number(best.mean)
    if delay == best_delay:
        return text + " and notices finished jobs as soon"
    return text + " and notices finished jobs after %s s instead of %s s" % (delay, best_delay)


def compare_matched(pairs: Sequence[Tuple[Figures, Figures]], width: int = WIDTH) -> str:
    """One line for each pair of `adaptive` and a pace that makes as many polls."""
    if not pairs:
        return ""
    heading = "With no more polls than these paces, adaptive notices finished jobs after"
    lines = ["", fill(heading, width)]
    for adaptive, rival in pairs:
        ours = short_number(adaptive.mean)
        theirs = short_number(rival.mean)
        if ours == theirs:
            text = "%4s s, as does %s" % (ours, rival.pace)
        elif (adaptive.mean or 0.0) < (rival.mean or 0.0):
            text = "%4s s instead of %4s s for %s" % (ours, theirs, rival.pace)
        else:
            text = "%4s s, later than %s s for %s" % (ours, theirs, rival.pace)
        price = str(adaptive.pace).partition(" ")[2] or "price=1s"
        line = "  %s, at %s" % (text, price)
        lines.append(fill(line, width, subsequent_indent="    "))
    return "".join(line + "\n" for line in lines)
