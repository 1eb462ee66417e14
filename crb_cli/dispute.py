"""``crb dispute``: question a label or a match, decide, and follow what comes of it (seed A 11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from crb_cli import dispute_results
from crb_cli.dispute_options import FolderOption, opened_folder, text_of
from crb_cli.output import JsonFlag, console, plain, print_json

if TYPE_CHECKING:
    from crb_core.corpus import Corpus
    from crb_core.dispute import Dispute
    from crb_core.settings import Settings

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True, help="Dispute labels of golden findings and matches of judges; decide, apply and follow them."
)

DisputeId = Annotated[str, typer.Argument(metavar="DISPUTE", help="Id of the dispute: d- and 12 hex digits.")]


@app.command()
def submit(
    corpus: Annotated[str, typer.Option(help="Corpus by name (stored or bundled) or folder.")],
    pr: Annotated[str, typer.Option("--pr", help="Key of the pull request.")],
    finding: Annotated[str, typer.Option(help="Id of the golden finding: g- and 12 hex digits.")],
    axis: Annotated[str, typer.Option(help="What is disputed: tp_fp, severity, category, scope, ..., or match.")],
    proposed: Annotated[str, typer.Option(help="What is right instead; of a match: match or no-match.")],
    rationale: Annotated[str, typer.Option(help="Why, in a few sentences.")],
    by: Annotated[str | None, typer.Option(help="Your name; anyone may dispute, named or not.")] = None,
    candidate: Annotated[
        str | None, typer.Option(help="Of a match: id of the candidate (c-...), as `crb export labels` writes it.")
    ] = None,
    sweep: Annotated[str | None, typer.Option(help="Of a match: the sweep that has the candidate.")] = None,
    judge: Annotated[str | None, typer.Option(help="Of a match: whose answer; the sweep's first judge.")] = None,
    folder: FolderOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Submit a dispute: which axis of which golden finding, what is right, and why. It is a file to hand in."""
    from pydantic import ValidationError

    from crb_cli.sweep import load_named_corpus
    from crb_core.clock import utc_now
    from crb_core.dispute import AXES, LONGEST_TEXT, MATCH, Dispute, Guidelines, Submission, check_value
    from crb_core.errors import InputError, UsageError, Where, first_problem
    from crb_core.finding import LABEL_AXES
    from crb_core.formats.human_labels import axis_values
    from crb_core.formats.imported import require_keys
    from crb_core.prompts import bundled_prompts
    from crb_core.protocols import protocol_named
    from crb_core.settings import load_settings

    settings = load_settings()
    loaded = load_named_corpus(settings, corpus)
    check_value(axis, proposed, axis_values(protocol_named(loaded.protocol)))
    require_keys([entry.pull_request.key for entry in loaded.entries], pr, Where(field="--pr"))
    known = {golden.finding_id(pr): golden for golden in loaded.entry(pr).golden}
    if finding not in known:
        raise InputError(
            f"{pr} has no golden finding {finding!r}",
            where=Where(field="--finding"),
            remedy=f"`crb corpus show {loaded.name} --json` has the ids",
        )
    for name, value in (("--candidate", candidate), ("--sweep", sweep), ("--judge", judge)):
        if axis != MATCH and value is not None:
            raise UsageError(
                f"{name} is for disputes about a match",
                where=Where(field=name),
                remedy=f"Leave it out or say --axis {AXES[-1]}",
            )
    golden = known[finding]
    labels = {name: str(value) for name in LABEL_AXES if (value := getattr(golden.label, name)) is not None}
    current, labelled_by, matches = labels.get(axis), golden.label.provenance.get(axis), None
    if axis == MATCH:
        current, labelled_by, matches = _match(settings, loaded, pr, finding, candidate, sweep, judge)
    guidelines = bundled_prompts()["guidelines"]
    if proposed == current:
        what = "the judge says so already" if axis == MATCH else f"the {axis} is {current} already"
        raise InputError(f"there is nothing to dispute: {what}", where=Where(field="--proposed"))
    try:
        submission = Submission(
            corpus=loaded.name,
            corpus_version=loaded.version,
            corpus_fingerprint=loaded.fingerprint,
            protocol=loaded.protocol,
            pull_request=pr,
            finding=finding,
            candidate=candidate,
            matches=matches,
            axis=axis,
            current=current,
            proposed=proposed,
            rationale=text_of("rationale", rationale, LONGEST_TEXT),
            labels=labels,
            labelled_by=labelled_by,
            guidelines=Guidelines(version=guidelines.version, sha256=guidelines.sha256),
            submitted_by=None if by is None else text_of("name", by, 100),
            submitted_at=utc_now(),
        )
    except ValidationError as error:
        raise InputError(f"the dispute cannot be submitted: {first_problem(error)[1]}") from None
    dispute = Dispute(id=submission.dispute_id, submission=submission)
    path = opened_folder(settings, folder).add(dispute)
    if as_json:
        print_json({"file": str(path), **dispute.model_dump(mode="json")})
        return
    was = "not labelled" if current is None else current
    console.print(plain(f"{dispute.id}: {axis} of {finding} in {pr}, {was}, should be {proposed}."), soft_wrap=True)
    console.print(plain(f"Wrote {path}. Send that file to those who keep the corpus."), soft_wrap=True)


def _match(
    settings: Settings,
    corpus: Corpus,
    pull_request: str,
    finding: str,
    candidate: str | None,
    sweep: str | None,
    judge: str | None,
) -> tuple[str | None, str, tuple[str, ...]]:
    """The judge's answer, its fingerprint, and everything that it matched the candidate to.

    The answer is None where rounds with the same candidate were answered differently.
    """
    from crb_core.dispute import MATCH_ANSWERS
    from crb_core.errors import InputError, UsageError, Where
    from crb_core.store import open_store
    from crb_core.store.corpora import load_corpus
    from crb_core.store.disputed import match_answers
    from crb_core.store.results import find_judge
    from crb_core.store.sweeps import find_sweep

    if candidate is None or sweep is None:
        missing = "--candidate" if candidate is None else "--sweep"
        raise UsageError(
            f"a dispute about a match needs {missing}",
            where=Where(field=missing),
            remedy="`crb export labels SWEEP --out FILE` writes the candidates with their ids",
        )
    store = open_store(settings.resolved_store_url)
    try:
        with store.read() as connection:
            row = find_sweep(connection, sweep)
            if load_corpus(connection, row.corpus_id).fingerprint != corpus.fingerprint:
                raise InputError(
                    f"the sweep {row.name} did not run over this version of {corpus.name}",
                    where=Where(field="--corpus"),
                    remedy="Name the corpus of the sweep",
                )
            chosen = find_judge(connection, row.id, judge)
            answers = match_answers(connection, row.id, chosen.judge_id, pull_request, candidate)
    finally:
        store.close()
    if not answers:
        raise InputError(
            f"no trial of {pull_request} with the candidate {candidate!r} was matched by {chosen.name}",
            where=Where(field="--candidate"),
            remedy="`crb export labels SWEEP --out FILE` writes the candidates with their ids",
        )
    said = {finding in each for each in answers}
    current = None if len(said) > 1 else MATCH_ANSWERS[0] if True in said else MATCH_ANSWERS[1]
    return current, chosen.judge_id, tuple(sorted(frozenset().union(*answers)))


@app.command("list")
def list_(
    corpus: Annotated[str | None, typer.Option(help="Only of this corpus, by name.")] = None,
    pr: Annotated[str | None, typer.Option("--pr", help="Only of this pull request.")] = None,
    state: Annotated[str | None, typer.Option(help="Only open, upheld, partially-upheld or declined ones.")] = None,
    folder: FolderOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List the disputes, the earliest first."""
    from crb_core.dispute import Outcome
    from crb_core.errors import UsageError, Where
    from crb_core.settings import load_settings

    states = ("open", *(outcome.value for outcome in Outcome))
    if state is not None and state not in states:
        raise UsageError(
            f"{state!r} is no state of a dispute",
            where=Where(field="--state"),
            remedy=f"Choose from {', '.join(states)}",
        )
    found = [
        each
        for each in opened_folder(load_settings(), folder).read_all()
        if corpus in {None, each.submission.corpus}
        and pr in {None, each.submission.pull_request}
        and state in {None, each.state}
    ]
    if as_json:
        print_json({"format": "crb.disputes/1", "disputes": [each.model_dump(mode="json") for each in found]})
        return
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("dispute", "finding", "axis", "was → proposed", "state"):
        table.add_column(title, overflow="fold")
    for each in found:
        about = each.submission
        table.add_row(
            plain(each.id),
            plain(f"{about.pull_request} {about.finding}"),
            about.axis,
            plain(f"{about.current or '–'} → {about.proposed}"),
            each.state,
        )
    if found:
        console.print(table)
    console.print("1 dispute" if len(found) == 1 else f"{len(found)} disputes")


@app.command()
def show(dispute: DisputeId, folder: FolderOption = None, as_json: JsonFlag = False) -> None:
    """Show one dispute with its reasons."""
    from crb_core.settings import load_settings

    found = opened_folder(load_settings(), folder).read(dispute)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    for line in _lines(found):
        console.print(plain(line), soft_wrap=True)


def _lines(dispute: Dispute) -> Sequence[str]:
    about, decision = dispute.submission, dispute.decision
    lines = [
        f"{dispute.id}: {dispute.state}",
        f"{about.axis} of {about.finding} in {about.pull_request}, corpus {about.corpus} {about.corpus_version}"
        + (f", candidate {about.candidate}" if about.candidate else ""),
        f"was {about.current or 'not labelled'} (by {about.labelled_by or 'nobody recorded'})",
        f"proposed {about.proposed}, under guidelines {about.guidelines.version}",
        f"Submitted {about.submitted_at} by {about.submitted_by or 'somebody unnamed'}:",
        *(f"  {line}" for line in about.rationale.splitlines()),
    ]
    if decision is not None:
        changes = ", ".join(f"{name} {value}" for name, value in decision.corrections.items()) or "nothing changes"
        lines += [
            f"Decided {decision.decided_at} by {decision.decided_by}: {decision.outcome}; {changes}:",
            *(f"  {line}" for line in decision.rationale.splitlines()),
        ]
    return lines


@app.command()
def decide(
    dispute: DisputeId,
    outcome: Annotated[str, typer.Option(help="upheld, partially-upheld or declined.")],
    rationale: Annotated[str, typer.Option(help="Why; it is published with the decision.")],
    by: Annotated[str, typer.Option(help="Who decides.")],
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="AXIS=VALUE", help="What is right where it is not what was proposed (repeatable)."),
    ] = None,
    folder: FolderOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Decide a dispute: upheld, partially upheld (another axis changes) or declined. A decision stays."""
    from crb_core.clock import utc_now
    from crb_core.dispute import LONGEST_TEXT, Outcome
    from crb_core.dispute import decide as decided
    from crb_core.errors import UsageError, Where
    from crb_core.formats.human_labels import axis_values
    from crb_core.protocols import protocol_named
    from crb_core.settings import load_settings

    outcomes = [each.value for each in Outcome]
    if outcome not in outcomes:
        raise UsageError(
            f"{outcome!r} is no outcome", where=Where(field="--outcome"), remedy=f"Choose from {', '.join(outcomes)}"
        )
    corrections: dict[str, str] = {}
    for text in label or ():
        axis, equals, value = text.partition("=")
        if not equals or axis in corrections:
            problem = "names its axis twice" if equals else "is not of the form AXIS=VALUE"
            raise UsageError(f"{text!r} {problem}", where=Where(field="--label"), remedy="Say severity=low")
        corrections[axis] = value
    disputes = opened_folder(load_settings(), folder)
    known = disputes.read(dispute)
    made = decided(
        known,
        Outcome(outcome),
        text_of("rationale", rationale, LONGEST_TEXT),
        corrections=corrections,
        decided_by=text_of("name", by, 100),
        decided_at=utc_now(),
        vocabulary=axis_values(protocol_named(known.submission.protocol)),
    )
    path = disputes.decide(made)
    if as_json:
        print_json({"file": str(path), **made.model_dump(mode="json")})
        return
    for line in _lines(made):
        console.print(plain(line), soft_wrap=True)


app.command("apply")(dispute_results.apply)
app.command("effect")(dispute_results.effect)
app.command("labels")(dispute_results.labels)
app.command("rates")(dispute_results.rates)
app.command("publish")(dispute_results.publish)
