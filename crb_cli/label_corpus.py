"""``crb corpus label``: a judge's classifier labels proposed findings, and what older classifiers labelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crb_cli.model_calls import FakeModel, MaxCost, fake_model_served, open_call_desk
from crb_cli.output import JsonFlag, console, plain, print_json

if TYPE_CHECKING:
    from crb_core.corpus import Corpus, CorpusEntry, Producer
    from crb_core.finding import CandidateFinding, Finding, GoldenFinding, Label
    from crb_core.golden_sets import AxisChange, Stale
    from crb_core.proposals import Proposal
    from crb_core.settings import Settings
    from crb_worker.judge.base import Judge

__all__ = ["label_corpus"]

FORMAT = "crb.corpus-labels/1"


@dataclass(frozen=True, kw_only=True)
class _Work:
    """What is to be labelled of one pull request: proposals that are new, and golden findings with stale axes."""

    entry: CorpusEntry
    new: tuple[Proposal, ...]
    stale: tuple[Stale, ...]

    @property
    def findings(self) -> list[Finding]:
        return [*(each.finding for each in self.new), *(self.entry.golden[each.position] for each in self.stale)]


@dataclass
class _Done:
    """What the labels made."""

    golden: dict[str, list[GoldenFinding]] = field(default_factory=dict)
    changes: list[AxisChange] = field(default_factory=list)


def label_corpus(
    corpus: Annotated[str, typer.Argument(help="Corpus by name (stored or bundled) or folder.")],
    files: Annotated[list[Path] | None, typer.Argument(help="Files of `crb corpus propose`.")] = None,
    save: Annotated[
        str | None, typer.Option(metavar="NAME", help="Store the corpus with the labels under this name.")
    ] = None,
    judge: Annotated[str, typer.Option("--judge", help="Whose classifier labels: claude, claude:model=ID.")] = "claude",
    relabel: Annotated[
        bool, typer.Option("--relabel", help="Also golden findings that another classifier labelled.")
    ] = False,
    fill: Annotated[
        list[str] | None,
        typer.Option(metavar="AXIS", help="Also this axis where golden findings lack it, such as severity."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be labelled.")] = False,
    max_cost: MaxCost = None,
    fake_model: FakeModel = False,
    as_json: JsonFlag = False,
) -> None:
    """Let a judge's classifier label proposed findings, which makes them golden findings of a new corpus.

    With --relabel also what another classifier labelled, with --fill what has no value. Labels of people stay.
    """
    from crb_cli.own_corpora import require_own_corpus_name, store_corpus
    from crb_cli.sweep import load_named_corpus
    from crb_core.errors import InputError, UsageError, Where
    from crb_core.finding import LABEL_AXES
    from crb_core.golden_sets import derived_corpus
    from crb_core.settings import load_settings
    from crb_worker.judge import judge_options, load_judge

    if not files and not relabel and not fill:
        raise UsageError(
            "there is nothing to label", remedy="Name files of `crb corpus propose`, or give --relabel or --fill"
        )
    for axis in fill or ():
        if axis not in LABEL_AXES:
            raise UsageError(
                f"{axis[:80]!r} is no label axis",
                where=Where(field="--fill"),
                remedy=f"Choose from {', '.join(LABEL_AXES)}",
            )
    if save is None and not dry_run:
        raise UsageError("the labels need a corpus of their own", remedy="Give --save NAME, or --dry-run")
    if judge_options(judge)[0] != "claude":
        raise UsageError(
            f"the judge {judge[:80]} labels no golden findings",
            where=Where(field="--judge"),
            remedy="Only claude does: claude, or claude:model=ID",
        )
    settings = load_settings()
    loaded = load_named_corpus(settings, corpus)
    if loaded.protocol != "reviewbench":
        raise InputError(
            f"the classifier labels findings of the protocol reviewbench, and {loaded.name} is for {loaded.protocol}",
            remedy="Take a corpus of that protocol",
        )
    proposals, producers = _read(loaded, files or ())
    if save is not None:
        # Refused before anything is paid for.
        require_own_corpus_name(save)
        derived_corpus(loaded, save, {}, producers)
    with fake_model_served(wanted=fake_model):
        classifier = load_judge(judge, corpus=loaded)
        work, repeated = _work(loaded, proposals, classifier, relabel=relabel, fill=fill or ())
        count = sum(len(each.findings) for each in work)
        labels: list[Sequence[Label]] = []
        if not dry_run:
            labels = _labelled(settings, loaded, classifier, work, max_cost)
    done = _applied(work, labels)
    made = None
    if save is not None and not dry_run:
        made = derived_corpus(loaded, save, done.golden, producers)
        store_corpus(settings, made)
    document = {
        "format": FORMAT,
        "corpus": loaded.name,
        "corpus_fingerprint": loaded.fingerprint,
        "judge": classifier.name,
        "classifier": classifier.fingerprint,
        "fake_model": bool(classifier.describe().get("fake_model", False)),
        "dry_run": dry_run,
        "saved_as": None if made is None else made.name,
        "saved_fingerprint": None if made is None else made.fingerprint,
        "new_findings": sum(len(each.new) for each in work),
        "repeated": repeated,
        "relabelled_findings": sum(len(each.stale) for each in work),
        "changes": [each.model_dump(mode="json") for each in done.changes],
        "labelled_tp": _tp_count(work, labels),
    }
    if as_json:
        print_json(document)
        return
    _print(document, count)


def _read(corpus: Corpus, files: Sequence[Path]) -> tuple[list[Proposal], list[Producer]]:
    """All proposals with their producers; InputError for a file that was made for other commits or another corpus."""
    from crb_core.errors import InputError, Where
    from crb_core.formats.proposals import read_proposals
    from crb_core.proposals import merged_producers

    proposals: list[Proposal] = []
    producers: tuple[Producer, ...] = ()
    for path in files:
        found = read_proposals(path, keys=[entry.pull_request.key for entry in corpus.entries])
        if found.corpus != corpus.name:
            raise InputError(
                f"the findings were proposed for the corpus {found.corpus}, not for {corpus.name}",
                where=Where(file=str(path), field="corpus"),
                remedy="Collect them for this corpus, or correct the name",
            )
        proposals += found.proposals
        producers = merged_producers(producers, found.producers)
    return proposals, list(producers)


def _work(
    corpus: Corpus, proposals: Sequence[Proposal], judge: Judge, *, relabel: bool, fill: Sequence[str]
) -> tuple[list[_Work], int]:
    """What is to be labelled, by pull request in corpus order, and how many proposals repeat a finding."""
    from crb_core.golden_sets import stale_findings, to_add

    work = []
    repeated = 0
    for entry in corpus.entries:
        mine = [each for each in proposals if each.pull_request == entry.pull_request.key]
        addition = to_add(entry, mine)
        repeated += len(addition.repeated)
        stale = stale_findings(entry, judge.fingerprint, others=relabel, absent=fill)
        if addition.new or stale:
            work.append(_Work(entry=entry, new=addition.new, stale=stale))
    return work, repeated


def _labelled(
    settings: Settings, corpus: Corpus, judge: Judge, work: Sequence[_Work], max_cost: float | None
) -> list[Sequence[Label]]:
    """The labels of each pull request's findings, in their order. Answers are kept: a second run asks for none."""
    from crb_cli.home import open_home
    from crb_core.store import open_store
    from crb_worker.judge.outside import judged_each

    open_home(settings)
    store = open_store(settings.resolved_store_url)
    try:
        desk = open_call_desk(settings, store, judge.fingerprint, max_cost=max_cost)
        lend = desk.lender(corpus)
        return judged_each(
            judge,
            [(partial(lend, each.entry), partial(_classified, work=each, protocol=corpus.protocol)) for each in work],
            slots=settings.judge_slots,
        )
    finally:
        store.close()


def _classified(judge: Judge, *, work: _Work, protocol: str) -> Sequence[Label]:
    from crb_worker.judge.base import Classifier
    from crb_worker.judge.complete import complete_labels

    assert isinstance(judge, Classifier)
    findings = [_as_candidate(each) for each in work.findings]
    made = complete_labels(judge, work.entry.pull_request.key, findings, list(range(len(findings))), protocol=protocol)
    return [each.label for each in sorted(made, key=lambda each: each.candidate)]


def _as_candidate(finding: Finding) -> CandidateFinding:
    from crb_core.finding import CandidateFinding

    return CandidateFinding.model_validate(finding.bare())


def _applied(work: Sequence[_Work], labels: Sequence[Sequence[Label]]) -> _Done:
    """The golden sets with the labels; new findings come last, in the order of the files."""
    from crb_core.golden_sets import golden_of, relabelled

    done = _Done()
    for each, given in zip(work, labels, strict=False):
        key = each.entry.pull_request.key
        golden = list(each.entry.golden)
        for stale, label in zip(each.stale, given[len(each.new) :], strict=True):
            golden[stale.position], changes = relabelled(key, golden[stale.position], stale.axes, label)
            done.changes += changes
        golden += [golden_of(proposal, label) for proposal, label in zip(each.new, given, strict=False)]
        done.golden[key] = golden
    return done


def _tp_count(work: Sequence[_Work], labels: Sequence[Sequence[Label]]) -> int | None:
    """How many of the new findings are tp; None where nothing was labelled."""
    if not labels:
        return None if work else 0
    return sum(
        label.tp_fp == "tp" for each, given in zip(work, labels, strict=True) for label in given[: len(each.new)]
    )


def _print(document: Mapping[str, Any], count: int) -> None:
    if document["fake_model"]:
        console.print("A scripted model answers: its labels say nothing.", style="yellow")
    if document["dry_run"]:
        words = f"{count} findings would be labelled: {document['new_findings']} new ones"
    else:
        words = f"{document['new_findings']} new golden findings, {document['labelled_tp']} of them tp"
    words += f", {document['relabelled_findings']} labelled anew or completed"
    if document["repeated"]:
        words += f"; {document['repeated']} proposals repeat a finding that is there"
    console.print(plain(f"{words} (classifier {document['classifier']})"), soft_wrap=True)
    for change in document["changes"]:
        console.print(
            plain(
                f"  {change['pull_request']} {change['finding']} {change['axis']}: "
                f"{change['was'] or 'none'} -> {change['now'] or 'none'}"
            ),
            soft_wrap=True,
        )
    if document["saved_as"] is not None:
        console.print(
            plain(f"stored as {document['saved_as']}, fingerprint {document['saved_fingerprint'][:12]}"), soft_wrap=True
        )
