"""The step machine: every transition is one UPDATE that names the state and the fence that it leaves.

A late or doubled result changes no row. ``fence`` counts how often a step was taken; ``beat`` is raised by the
worker that holds it. See design.md, "How work flows".
"""

from crb_core.store.steps.by_hand import RETRIABLE, Changed, Scope, cancel_steps, restore_steps, retry_steps
from crb_core.store.steps.ending import LONGEST_WAIT_SECONDS, close, defer, fail, finish_attempt
from crb_core.store.steps.holding import beat, interrupt, look, lose
from crb_core.store.steps.records import AttemptLimits, HeldStep, Orders, TakenStep
from crb_core.store.steps.taking import add_step, choose_alone, hand_back, mark_queued, take, withdraw

__all__ = [
    "LONGEST_WAIT_SECONDS",
    "RETRIABLE",
    "AttemptLimits",
    "Changed",
    "HeldStep",
    "Orders",
    "Scope",
    "TakenStep",
    "add_step",
    "beat",
    "cancel_steps",
    "choose_alone",
    "close",
    "defer",
    "fail",
    "finish_attempt",
    "hand_back",
    "interrupt",
    "look",
    "lose",
    "mark_queued",
    "restore_steps",
    "retry_steps",
    "take",
    "withdraw",
]
