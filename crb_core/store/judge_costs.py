"""What the calls of a judge's model cost in a sweep: charges as observed, list prices as estimates (rule 21)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, select

from crb_core.store.tables import JudgeCallRow, TrialRow, core
from crb_core.usage import JudgeCosts

__all__ = ["judge_cost_totals", "judge_costs"]

calls = core(JudgeCallRow)
trials = core(TrialRow)


def judge_costs(connection: Connection, sweep_id: str, judge_id: str) -> JudgeCosts:
    """What the calls of a judge's model cost in a sweep: charges as observed, list prices as estimates."""
    rows = connection.execute(
        select(calls.c.charge_usd, calls.c.list_price_usd, calls.c.price_table, calls.c.answer_digest)
        .join(trials, trials.c.id == calls.c.trial_id)
        .where(trials.c.sweep_id == sweep_id, calls.c.judge_id == judge_id)
        .order_by(calls.c.id)
    ).all()
    charged = [row for row in rows if row.charge_usd is not None and row.answer_digest is not None]
    priced = [row for row in rows if row.list_price_usd is not None]
    return JudgeCosts(
        calls=len(rows),
        charge_usd=sum(row.charge_usd for row in charged) if charged else None,
        charged=len(charged),
        evidence=tuple(sorted({row.answer_digest for row in charged})),
        list_price_usd=sum(row.list_price_usd for row in priced) if priced else None,
        priced=len(priced),
        price_tables=tuple(sorted({row.price_table for row in priced if row.price_table})),
    )


def judge_cost_totals(connection: Connection, sweep_id: str, judge_id: str) -> dict[str, Any]:
    """The same sums without evidence and price tables, quick enough for every page; None where nothing is known."""
    is_charged = calls.c.charge_usd.is_not(None) & calls.c.answer_digest.is_not(None)
    row = connection.execute(
        select(
            func.count().label("calls"),
            func.sum(calls.c.charge_usd).filter(is_charged).label("charge_usd"),
            func.count().filter(is_charged).label("charged"),
            func.sum(calls.c.list_price_usd).label("list_price_usd"),
            func.count(calls.c.list_price_usd).label("priced"),
        )
        .join(trials, trials.c.id == calls.c.trial_id)
        .where(calls.c.judge_id == judge_id, trials.c.sweep_id == sweep_id)
    ).one()
    return dict(row._mapping)
