"""Each hostile agent ends with the right outcome, within its limits, leaves nothing, and the next trial is unaffected.

Every attack is a real container, run as a review step of a real store by a real worker context, and followed by a calm
trial on the same worker that is reviewed, matched and scored.
"""

from __future__ import annotations

import pytest

from crb_core.agent import Outcome
from tests.hostile.attacks import ATTACKS, COUSINS, Attack
from tests.hostile.farm import HostileFarm, Trial
from tests.hostile.report import Record

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

_MIB = 1024 * 1024


def _went_wrong(attack: Attack, trial: Trial, word: str) -> list[str]:
    """What the attack reached, and how its end differs from the right one."""
    streams = trial.stdout + trial.stderr
    wrong = [line for line in trial.stdout.decode(errors="replace").splitlines() if line.startswith("BREACH")]
    wrong += [line for line in trial.stdout.decode(errors="replace").splitlines() if line.startswith("ALLOWED")]
    if trial.outcome not in {attack.outcome, *attack.or_else}:
        wrong.append(f"ended as {trial.outcome}: {trial.detail} {trial.stderr[-2000:].decode(errors='replace')}")
    if trial.outcome is attack.outcome and attack.said not in trial.detail:
        wrong.append(f"the verdict says {trial.detail!r}")
    if not attack.floods and f"BEGUN {attack.name}\n".encode() not in trial.stdout:
        wrong.append("did not begin")
    if attack.printed.encode() not in trial.stdout:
        wrong.append(f"did not print {attack.printed!r}")
    if word.encode() in streams or word in trial.detail:
        wrong.append("printed the word")
    if max(len(trial.stdout), len(trial.stderr)) > attack.limits["log_mib"] * _MIB:
        wrong.append("more log than its limit")
    if trial.outcome is not Outcome.SUCCEEDED and trial.findings:
        wrong.append("findings of an attempt that failed")
    return wrong


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(attack, id=attack.name, marks=[pytest.mark.thorough] if attack.name in COUSINS else [])
        for attack in ATTACKS
    ],
)
def test_contains(attack: Attack, farm: HostileFarm, records: list[Record]) -> None:
    """Right outcome, nothing reached, nothing left, and the next trial gives what it always gives."""
    trial = farm.attack(attack.name)
    wrong = _went_wrong(attack, trial, farm.outside.word) + farm.left_behind()
    usual_ms = farm.usual_ms
    following = farm.calm()
    if following.result != farm.normal.result:
        wrong.append(f"the next trial changed: {following}")
    wrong += farm.left_behind()
    records.append(
        Record(
            name=attack.name,
            outcome=trial.outcome.value,
            contained=not wrong,
            seconds=None if trial.review_ms is None else trial.review_ms / 1000,
            next_ratio=None if following.review_ms is None else following.review_ms / usual_ms,
        )
    )
    assert not wrong, "\n".join(wrong)


def test_there_are_enough_of_them() -> None:
    """At least 45 in every run, each with a name of its own."""
    names = {attack.name for attack in ATTACKS}
    assert len(names) == len(ATTACKS)
    assert names >= COUSINS
    assert len(names - COUSINS) >= 45
