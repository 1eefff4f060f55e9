"""Every (phase, signal) pair is decided: it leads somewhere, or it is an error."""

import itertools

import pytest

from rebalance.phases import TRANSITIONS, IllegalSignal, Phase, Signal, after

A, R, F, I, U, X = Phase  # noqa: E741 - the columns of the table below

TABLE = {
    #                  assigned restoring fencing installing running released
    Signal.OPENED: (R, None, None, None, None, None),
    Signal.CAUGHT_UP: (None, F, None, None, None, None),
    Signal.BOUNDED: (None, None, I, None, None, None),
    Signal.STALLED: (None, None, R, R, None, None),
    Signal.DAMAGED: (A, A, A, A, A, None),
    Signal.CLAIMED: (None, None, None, U, None, None),
    Signal.RENEWED: (A, A, A, A, A, None),
    Signal.REVOKED: (X, X, X, X, X, None),
    Signal.LOST: (X, X, X, X, X, None),
}


@pytest.mark.parametrize(("phase", "signal"), list(itertools.product(Phase, Signal)))
def test_every_pair_is_decided(phase: Phase, signal: Signal) -> None:
    expected = TABLE[signal][list(Phase).index(phase)]
    if expected is None:
        with pytest.raises(IllegalSignal, match=f"{signal} in phase {phase}"):
            after(phase, signal)
    else:
        assert after(phase, signal) is expected


def test_only_a_claim_leads_to_running() -> None:
    assert [pair for pair, phase in TRANSITIONS.items() if phase is Phase.RUNNING] == [
        (Phase.INSTALLING, Signal.CLAIMED)
    ]


def test_nothing_leads_out_of_released() -> None:
    assert not [pair for pair in TRANSITIONS if pair[0] is Phase.RELEASED]
