"""``crb judge list``: judges with their versions, what was measured of them, and which judgments are stale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from crb_cli.judge_calibrate import figure, interval
from crb_cli.output import JsonFlag, console, plain, print_json
from crb_core.calibration_words import calibration_words

if TYPE_CHECKING:
    from crb_core.settings import Settings
    from crb_core.store import Store
    from crb_core.store.calibrations import StoredCalibration
    from crb_worker.judge.base import Judge

__all__ = ["list_"]

FORMAT = "crb.judges/1"


def list_(
    corpus: Annotated[str, typer.Option(help="Corpus that the judges are opened for.")] = "showcase",
    as_json: JsonFlag = False,
) -> None:
    """List this version's judges and those of the store: versions, agreement, calibrations, stale judgments."""
    from crb_cli.sweep import load_named_corpus
    from crb_core.settings import load_settings
    from crb_core.store.calibrations import calibrations
    from crb_core.store.judge_records import calibration_records, stored_judges

    settings = load_settings()
    loaded = load_named_corpus(settings, corpus)
    known: Sequence[StoredCalibration] = ()
    stored: list[dict[str, Any]] = []
    store = _existing_store(settings)
    if store is not None:
        with store.read() as connection:
            known, stored = calibrations(connection), stored_judges(connection)
        store.close()
    records = [_here(name, loaded, known) for name in _names()]
    if as_json:
        print_json(
            {
                "format": FORMAT,
                "corpus": loaded.name,
                "judges": records,
                "stored": stored,
                "calibrations": calibration_records(known),
            }
        )
        return
    _print(records)
    shown = {record["key"] for record in records if "key" in record}
    for other in calibration_records(known):
        if other["key"] not in shown:
            note = "" if other["held_out"] else "; not held out"
            words = f"{other['judge']} ({other['key']}) {calibration_words(other)}{note}"
            console.print(plain(words), style="dim", soft_wrap=True)
    if stored:
        _print_stored(stored)


def _names() -> tuple[str, ...]:
    from crb_worker.judge import judge_names

    return judge_names()


def _existing_store(settings: Settings) -> Store | None:
    """The store, if there is one: a list makes none."""
    from crb_core.store import open_store

    if settings.store_url is None and not (settings.home_folder / "crb.sqlite").is_file():
        return None
    return open_store(settings.resolved_store_url)


def _here(name: str, corpus: Any, known: Sequence[StoredCalibration]) -> dict[str, Any]:
    from crb_core.bundled import bundled_references
    from crb_core.errors import CrbError
    from crb_core.store.judge_records import models_of, of_description, prompt_record
    from crb_core.store.judge_versions import stale_prompts
    from crb_worker.judge import load_judge

    try:
        judge = load_judge(name, corpus=corpus, reference_folder=bundled_references(corpus.name))
    except CrbError as error:
        return {"name": name, "unavailable": str(error)}
    description = judge.describe()
    return {
        "name": judge.name,
        "fingerprint": judge.fingerprint,
        "classifies": judge.classifies,
        "description": description,
        "models": models_of(description),
        "prompts": [prompt_record(prompt) for prompt in stale_prompts(description)],
        "measured": _measured(judge),
        **of_description(description, known),
    }


def _measured(judge: Judge) -> dict[str, Any] | None:
    """What the package says of its own model: training data and agreement with each repository left out."""
    model = getattr(judge, "model", None)
    if model is None:
        return None
    training = model.training
    return {
        "training": {
            "data": training.data,
            "sha256": training.sha256,
            "repositories": list(training.repositories),
            "pull_requests": len(training.examples),
            "pairs": training.pairs,
            "method": training.method,
        },
        "threshold": model.threshold,
        "agreement": model.agreement,
    }


def _print(records: Sequence[Mapping[str, Any]]) -> None:
    for record in records:
        console.print()
        if "unavailable" in record:
            console.print(Text.assemble((record["name"], "bold"), plain(f"  {record['unavailable']}")), soft_wrap=True)
            continue
        labels = "matches and classifies" if record["classifies"] else "matches, does not classify"
        console.print(Text.assemble((record["name"], "bold"), plain(f"  {record['fingerprint']}  {labels}")))
        for role, model in record["models"].items():
            console.print(plain(f"  {role}: model {model}"))
        if record["prompts"]:
            used = ", ".join(f"{each['name']} {each['version']}" for each in record["prompts"])
            console.print(plain(f"  prompts: {used}"), soft_wrap=True)
        if record["measured"] is not None:
            _print_measured(record["measured"])
        held_out = [each for each in record["calibrations"] if each["held_out"]]
        console.print(plain(f"  {calibration_words(held_out[0] if held_out else None)}"))
        for each in record["calibrations"]:
            note = "" if each["held_out"] else "; not held out"
            console.print(plain(f"  {each['measured_at'][:10]} {calibration_words(each)}{note}"), style="dim")


def _print_measured(measured: Mapping[str, Any]) -> None:
    training, found = measured["training"], measured["agreement"]
    console.print(
        plain(
            f"  trained on {training['pull_requests']} pull requests of {', '.join(training['repositories'])} "
            f"(data {training['sha256'][:12]}); match from {measured['threshold']}"
        ),
        soft_wrap=True,
    )
    console.print(plain(f"  measured {found['method']}, is a golden finding covered:"))
    for name, each in [*found["judges"].items(), ("all", found["pooled"])]:
        kappa = f"{figure(each['kappa'])} ({interval(each['kappa_low'], each['kappa_high'])})"
        console.print(
            plain(
                f"    {name}: kappa {kappa}, F1 {figure(each['f1'])}, "
                f"largest F1 difference {figure(each['largest_f1_difference'])}, tau {figure(each['kendall_tau'])}"
            ),
            style="dim",
            soft_wrap=True,
        )


def _print_stored(stored: Sequence[Mapping[str, Any]]) -> None:
    console.print()
    table = Table(box=None, pad_edge=False)
    for title in ("in the store", "fingerprint", "judgments", "matches", "labels", "stale"):
        table.add_column(title, justify="right" if title in {"judgments", "matches", "labels"} else "left")
    for record in stored:
        stale = [part for part, is_stale in record["stale"].items() if is_stale]
        table.add_row(
            plain(record["name"]),
            record["fingerprint"],
            *(str(record[field]) for field in ("judgments", "matches", "labels")),
            Text(", ".join(stale), style="yellow") if stale else "no",
        )
    console.print(table)
    for record in stored:
        if record["council"] is not None:
            votes = ", ".join(f"{name} {fingerprint}" for fingerprint, name in record["council"].items())
            console.print(plain(f"{record['name']} {record['fingerprint']} counts the votes of {votes}"), style="dim")
        if record["fake_model"]:
            console.print(plain(f"{record['name']} {record['fingerprint']}: a scripted model answered"), style="yellow")
        for prompt in record["prompts"]:
            if prompt["stale"]:
                now = "gone" if prompt["present_version"] is None else f"now version {prompt['present_version']}"
                console.print(
                    plain(f"{record['name']} {record['fingerprint']}: {prompt['name']} {prompt['version']}, {now}"),
                    style="yellow",
                )
    if any(record["stale"]["matching"] or record["stale"]["classifying"] for record in stored):
        console.print("`crb judge rejudge SWEEP --dry-run` shows what a new judging would replace.", style="dim")
