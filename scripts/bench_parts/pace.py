"""The cost of each pace, compared with the cheapest possible schedule (see optimum.py)."""

import sys
from typing import Dict, List, NamedTuple, Optional

from . import common
from .common import Options, Results

EXPLANATION = """\
Cost (1 s x polls + notice delay) of jobs 101 to 200 of a label, after learning from all before, as
a multiple of the lowest possible cost for the true distribution. Everything runs through
core.machine, in virtual time."""

# A paragraph before each table.
TEXTS = {
    "learned": "",
    "held out": """
Distributions chosen by someone who did not know how the rule was made. They have no goal.""",
    "seen": """
Distributions used while the rule was made: they prove less. The pace's max of 5 min costs one poll
every 5 min for long jobs. Jobs of exactly 90 s, or of whole minutes, are best polled just then;
from intervals alone the pace never quite learns that.""",
    "drift": """
Jobs 13 to 25 after the durations of all jobs changed by this factor. For d and e also: the cost if
everything had been forgotten at the change. If that misses the goal, too, so few jobs are not
enough to learn from.""",
    "trap": """
If only intervals are known: jobs 351 to 450 compared with jobs 51 to 150. The cost rises if the
pace learns wrongly.""",
    "waves": """
Six waves of 60 jobs. The jobs of a wave start together, so the short ones finish first.""",
    "mixes": """
Notice delay in seconds of a cold start: 60 requests per minute, latency 0.15 s.""",
    "queue": """
Polls per job plus mean notice delay: four waves of 25 jobs that a server works off one by one.""",
    "shadow price": """
What one more request saves, in seconds of delay: as `status` shows it under a limit of 60 requests
per minute, and as measured with 66 of them.""",
    "weight": """
Mean notice delay in seconds under a limit of 60 requests per minute, if the jobs of one model have
a weight.""",
    "cold": """
Scenarios of `pollkit simulate` from a cold start: the cost, and the worst delay of a run as a
multiple of its p95, as the mean of the runs. The worst run depends on single jobs: the cheapest
schedule for the known distribution exceeds three times p95 in some runs, too.""",
    "held": """
Jobs from the 101st on of a server that holds polls, against the optimum with holding.""",
    "longer": """
How late a job of 15.05 s is noticed if seven jobs of up to 14 s are known, in seconds.""",
    "narrow": """
Jobs 101 to 200 whose durations vary little, compared with the price of a poll.""",
    "progress": """
Jobs of 2 to 15 min that report progress, as a share of their cost without progress. Most of these
false reports were known when the trust in progress was chosen.""",
    "deciding": """
Time to decide, the best of several rounds.""",
    "a day": """
pollkit simulate --scenario moderation: the jobs of one day, with all paces and the optimum.""",
}
BY_SCENARIO = ("learned", "held out", "seen")  # tables with one line per scenario


class Figure(NamedTuple):
    """One measured value, and its goal: the most that it may be."""

    part: str
    row: str
    column: str
    value: float
    goal: Optional[float] = None

    @property
    def reached(self) -> Optional[bool]:
        """Whether the goal was reached; None if there is none."""
        return None if self.goal is None else self.value <= self.goal

    def __str__(self) -> str:
        return "%.2f%s" % (self.value, " NOT reached" if self.reached is False else "")


def run(options: Options) -> Results:
    """cost of polling compared with the optimum: learned, new, after a change, with progress."""
    seeds = 2 if options.is_quick else 6
    measured = common.run_module(sys.executable, "pace_figures", [seeds], timeout=600)
    figures = [Figure(*figure) for figure in measured["figures"]]
    _show(figures, measured["took_s"], options.is_quick)
    return {
        "benchmark": "pace",
        "machine": common.describe_machine(),
        "took_s": measured["took_s"],
        "quick": options.is_quick,
        "figures": [dict(figure._asdict(), reached=figure.reached) for figure in figures],
    }


def _show(figures: List[Figure], took_s: float, is_quick: bool) -> None:
    print(EXPLANATION)
    if is_quick:
        print("--quick: fewer jobs. Do not quote these figures.")
    for part, text in TEXTS.items():
        print(text)
        _print_part(part, [figure for figure in figures if figure.part == part])
    goals = [figure.reached for figure in figures if figure.reached is not None]
    print("\n{} of {} goals reached, in {:.0f} s".format(sum(goals), len(goals), took_s))


def _print_part(part: str, figures: List[Figure]) -> None:
    table: Dict[str, Dict[str, Figure]] = {}
    for figure in figures:
        if part in BY_SCENARIO:
            table.setdefault(figure.column, {})[figure.row] = figure
        else:
            table.setdefault(figure.row, {})[figure.column] = figure
    columns = list(next(iter(table.values())))
    common.print_table(
        [""] + [">" + column for column in columns],
        [[row] + [str(cells[column]) for column in columns] for row, cells in table.items()],
    )
    goals = sorted({"<= %g" % figure.goal for figure in figures if figure.goal is not None})
    if goals:
        print("goal: " + ", ".join(goals))
