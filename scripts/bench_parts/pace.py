"""What each pace costs beside the cheapest schedule there is: see SCENARIOS in optimum.py."""

import sys
from typing import Dict, List, NamedTuple, Optional

from . import common
from .common import Options, Results

TEXTS = [
    ("learned", ""),
    ("held out", "Shapes by somebody who had not seen how the rule was made. They have no goal."),
    (
        "seen",
        """Shapes looked at while the rule was made: they prove less. The pace's max of 5 min costs a poll every
5 min where jobs are long. Jobs of just 90 s, or of whole minutes, are best looked at just then; intervals
alone never quite teach it.""",
    ),
    (
        "drift",
        """Jobs 13 to 25 after all began to take so many times as long. Below d and e, what they would cost had
all been forgotten just then: where that is above the goal, too, it takes more jobs to learn from.""",
    ),
    (
        "trap",
        "Where only intervals are known: jobs 351 to 450 beside jobs 51 to 150. Learned wrongly, it rises.",
    ),
    (
        "waves",
        "Waves of 60 jobs that begin together, and so end in order of their length; six, one after the other.",
    ),
    (
        "progress",
        """Jobs of 2 to 15 min that report progress, as a share of the cost of the learned rule alone. How far
progress is trusted was chosen with most of these lies in view.""",
    ),
    ("deciding", "Time to decide, the best of several rounds."),
    (
        "a day",
        "pollkit simulate --scenario moderation: a day's jobs, with all paces and the optimum.",
    ),
]


class Figure(NamedTuple):
    """One thing measured, and what it was to be at most."""

    part: str
    row: str
    column: str
    value: float
    goal: Optional[float] = None

    @property
    def reached(self) -> Optional[bool]:
        return None if self.goal is None else self.value <= self.goal

    def __str__(self) -> str:
        return "%.2f%s" % (self.value, "" if self.reached in (None, True) else " NOT reached")


def run(options: Options) -> Results:
    """what looking costs beside the optimum: learned, cold, after a change, with progress."""
    is_quick = options.seconds < 1
    measured = common.in_child(
        sys.executable, "pace_figures", ["2" if is_quick else "6"], timeout=600
    )
    figures = [Figure(*figure) for figure in measured["figures"]]
    _show(figures, measured["took_s"], is_quick)
    return {
        "benchmark": "pace",
        "machine": common.machine(),
        "took_s": measured["took_s"],
        "quick": is_quick,
        "figures": [dict(figure._asdict(), reached=figure.reached) for figure in figures],
    }


def _show(figures: List[Figure], took_s: float, is_quick: bool) -> None:
    print(
        "Cost (1 s x polls + notice delay) of jobs 101 to 200 of a label, each learned from, as a multiple of the"
    )
    print(
        "least possible for the true distribution. All of it through core.machine, on a virtual time line."
    )
    if is_quick:
        print("--quick: a quarter of the jobs. For trying out, not for quoting.")
    for part, text in TEXTS:
        print("\n" + text if text else "")
        _print_part(
            [figure for figure in figures if figure.part == part],
            part in ("learned", "held out", "seen"),
        )
    goals = [figure for figure in figures if figure.goal is not None]
    print(
        "\n{} of {} goals reached, in {:.0f} s".format(
            sum(1 for f in goals if f.reached), len(goals), took_s
        )
    )


def _print_part(figures: List[Figure], across: bool) -> None:
    """Rows and columns as the figures have them, or the other way round."""
    table: Dict[str, Dict[str, Figure]] = {}
    for figure in figures:
        row, column = (figure.column, figure.row) if across else (figure.row, figure.column)
        table.setdefault(row, {})[column] = figure
    columns = list(next(iter(table.values())))
    goals = sorted({"<= %g" % figure.goal for figure in figures if figure.goal is not None})
    common.print_table(
        [""] + [">" + column for column in columns],
        [[row] + [str(cells[column]) for column in columns] for row, cells in table.items()],
    )
    if goals:
        print("goal: " + ", ".join(goals))
