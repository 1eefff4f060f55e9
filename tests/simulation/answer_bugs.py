"""Bugs to plant in what is taken for an answer of the broker; see `mutations`."""

from __future__ import annotations

from typing import Final

import app.kafka.answers
import app.kafka.changelog
from tests.simulation.mutations import Edit, Mutation
from tests.simulation.test_schedules import SCHEDULES

ANSWER_BUGS: Final = (
    Mutation(
        "an offset that is none is taken for one",
        (Edit(app.kafka.answers.offset_of, "if offset < 0:", "if False:"),),
        options={"lose_request": 0.05, "lose_answer": 0.05},
    ),
    Mutation(
        "a tail that was cut is asked for again and again",
        (Edit(app.kafka.changelog.read_tail, "return None", "continue"),),
        options={
            "schedule": SCHEDULES["old news of a tail that was cut"],
            "workers": 2,
            "lanes": 2,
            "events": 22,
            "faults": (),
            "trouble_s": 10.0,
        },
    ),
)
