"""Bugs to plant where somebody asks about a key; see `mutations`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import app.questions
from app.questions import Questions
from app.turns import Turns
from app.worker import Worker
from schemas.records import JoinType
from tests.simulation.mutations import Edit, Mutation, asleep

if TYPE_CHECKING:
    from collections.abc import Mapping

ASKED: Final[Mapping[str, Any]] = {"questions": True, "join": JoinType.INNER}

ASKING_BUGS: Final = (
    Mutation(
        "a linearizable answer is given without a proof",
        (Edit(Questions.serve, "if question.linearizable:", "if False:"),),
        options=asleep("turn.stored"),
    ),
    Mutation(
        "an answer holds whatever memory holds",
        (Edit(app.questions.describe, " and is_retained(row[0], mark, horizon)", ""),),
    ),
    Mutation(
        "questions are answered from what is not committed",
        (
            Edit(Worker.step, "if not self.turns.ahead.plans:", "if True:"),
            Edit(Turns._may_run_ahead, "not worker.questions.any", "True"),
        ),
        options=ASKED,
    ),
)
