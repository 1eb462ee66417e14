"""The judges that a sweep gets: opened for its corpus, and what the store keeps of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crb_core.agent import AgentBuild
    from crb_core.corpus import Corpus
    from crb_core.store.sweeps import JudgePlan
    from crb_worker.judge.base import Judge

__all__ = ["judge_plan", "open_judges", "plan_judges"]


def open_judges(corpus: Corpus, specs: Sequence[str], *, work_here: bool, max_cost: float | None = None) -> list[Judge]:
    """The judges of specs.

    UnavailableError where they are to ``work_here`` and this machine lacks their key; InputError where their cost is
    limited to ``max_cost`` USD and their model has no price.
    """
    from crb_core.bundled import bundled_references
    from crb_worker.judge import load_judge

    opened = []
    for spec in specs:
        judge = load_judge(spec, corpus=corpus, reference_folder=bundled_references(corpus.name))
        check = getattr(judge, "check", None)
        if work_here and check is not None:
            check()
        check_price = getattr(judge, "check_price", None)
        if max_cost is not None and check_price is not None:
            check_price()
        opened.append(judge)
    return opened


def plan_judges(corpus: Corpus, specs: Sequence[str], builds: Sequence[AgentBuild]) -> list[JudgePlan]:
    """The plans of judges that may work elsewhere."""
    judges = open_judges(corpus, specs, work_here=False)
    return [judge_plan(spec, judge, builds) for spec, judge in zip(specs, judges, strict=True)]


def judge_plan(spec: str, judge: Judge, builds: Sequence[AgentBuild]) -> JudgePlan:
    """The plan of one judge. ``reference`` judges only the recorded reviewers, whose findings people have judged."""
    from crb_core.store.sweeps import JudgePlan

    covered = frozenset(build.build_id for build in builds if build.kind == "replay")
    return JudgePlan(
        judge_id=judge.fingerprint,
        name=judge.name,
        classifies=judge.classifies,
        document={"spec": spec, "description": judge.describe()},
        builds=covered if judge.name == "reference" else None,
    )
