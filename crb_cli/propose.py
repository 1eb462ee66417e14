"""``crb corpus propose``: findings for a golden set, from people, tools, agents and the author's later commits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crb_cli.model_calls import FakeModel, MaxCost
from crb_cli.output import JsonFlag, console, plain, print_json
from crb_cli.proposal_sources import COMMENTS, COMMITS, FORMATS, SWEEP, Options, collect

if TYPE_CHECKING:
    from crb_core.proposals import Proposals

__all__ = ["propose"]


def propose(
    corpus: Annotated[str, typer.Argument(help="Corpus by name (stored or bundled) or folder.")],
    format: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="github-review-comments, sarif, rdjson, gitlab-code-quality, sweep or follow-up-commits.",
        ),
    ],
    path: Annotated[str, typer.Argument(metavar="PATH", help="File or folder of it, or a sweep's name.")],
    out: Annotated[Path, typer.Option("--out", help="File to write (crb.proposals/1).")],
    pr: Annotated[str | None, typer.Option("--pr", help="Pull request that a single file is of.")] = None,
    producer: Annotated[
        str | None, typer.Option(help="Name of the producer; human_review for comments by default.")
    ] = None,
    version: Annotated[str | None, typer.Option(help="Its version, where the files do not say it.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="Of its configuration (repeatable).")
    ] = None,
    root: Annotated[str | None, typer.Option(help="Folder prefix that paths in the files begin with.")] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="LOGIN", help="Comments: no reviewer, such as the author (repeatable)."),
    ] = None,
    agent: Annotated[list[str] | None, typer.Option(help="Sweep: only this agent (repeatable).")] = None,
    round_number: Annotated[int, typer.Option("--round", min=1, help="Sweep: whose findings are taken.")] = 1,
    tool: Annotated[
        bool, typer.Option("--tool", help="Sweep: its agents are deterministic tools; changed lines only.")
    ] = False,
    author: Annotated[
        str | None, typer.Option(metavar="LOGIN", help="Commits: whose; by default of who made the reviewed head.")
    ] = None,
    judge: Annotated[
        str | None, typer.Option("--judge", help="Commits: who reads them, claude or claude:model=ID.")
    ] = None,
    max_cost: MaxCost = None,
    fake_model: FakeModel = False,
    as_json: JsonFlag = False,
) -> None:
    """Collect findings for a golden set: reviewers' comments, tools' reports, a sweep's agents, or later commits.

    Comments are placed at the reviewed head, tools' findings count on changed lines, and of later commits only what
    they show without doubt. Nothing is labelled yet.
    """
    from crb_cli.new_file import new_file
    from crb_cli.sweep import load_named_corpus
    from crb_core.errors import InputError, UsageError, Where
    from crb_core.formats.imported import Irregularities
    from crb_core.formats.proposals import FORMAT, proposals_to_json
    from crb_core.proposals import LeftOut, Proposals
    from crb_core.settings import load_settings

    if format not in FORMATS:
        raise UsageError(
            f"there is no format {format[:80]!r}",
            where=Where(field="FORMAT"),
            remedy=f"Choose from {', '.join(FORMATS)}",
        )
    options = Options(
        pull_request=pr,
        producer=producer,
        version=version,
        setting=_settings(setting or ()),
        root=root,
        without=without or (),
        agents=agent or (),
        round=round_number,
        is_tool=tool,
        author=author,
        judge=judge,
        max_cost=max_cost,
        fake_model=fake_model,
    )
    _refuse_useless(format, options)
    if out.exists():
        raise InputError("the file is already there", where=Where(file=str(out)), remedy="Name another --out")
    if not out.parent.is_dir():
        raise InputError("there is no such folder", where=Where(file=str(out.parent)), remedy="Make it first")
    settings = load_settings()
    loaded = load_named_corpus(settings, corpus)
    found = collect(settings, loaded, format, path, options, Irregularities())
    made = Proposals(
        corpus=loaded.name,
        corpus_fingerprint=loaded.fingerprint,
        origin=found.origin,
        producers=tuple(found.producers),
        proposals=tuple(found.proposals),
        left_out=tuple(LeftOut.model_validate(each.to_json()) for each in found.irregularities.found),
    )
    document = proposals_to_json(made)
    with new_file(out) as stream:
        stream.write(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    if as_json:
        print_json(
            {
                "format": FORMAT,
                "file": str(out),
                "corpus": made.corpus,
                "corpus_fingerprint": made.corpus_fingerprint,
                "origin": made.origin.value,
                "producers": document["producers"],
                "proposals": len(made.proposals),
                "left_out": document["left_out"],
            }
        )
        return
    _print(made, out)


def _settings(texts: Sequence[str]) -> dict[str, str]:
    from crb_core.errors import UsageError, Where

    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or name.strip() in found:
            raise UsageError(
                f"{text[:80]!r} is not of the form KEY=VALUE, or its key is given twice", where=Where(field="--setting")
            )
        found[name.strip()] = value.strip()
    return found


def _refuse_useless(format_name: str, options: Options) -> None:
    """Refuse an option that would be ignored."""
    from crb_core.errors import UsageError

    given = {
        "--pr": options.pull_request is not None,
        "--producer": options.producer is not None,
        "--version": options.version is not None,
        "--root": options.root is not None,
        "--without": bool(options.without),
        "--agent": bool(options.agents),
        "--round": options.round != 1,
        "--tool": options.is_tool,
        "--author": options.author is not None,
        "--judge": options.judge is not None,
        "--max-cost": options.max_cost is not None,
        "--fake-model": options.fake_model,
    }
    taken = {
        COMMENTS: {"--pr", "--producer", "--version", "--root", "--without"},
        COMMITS: {"--pr", "--producer", "--version", "--author", "--judge", "--max-cost", "--fake-model"},
        SWEEP: {"--agent", "--round", "--tool"},
    }.get(format_name, {"--pr", "--producer", "--version", "--root"})
    for name, is_given in given.items():
        if is_given and name not in taken:
            raise UsageError(f"{name} means nothing for the format {format_name}", remedy=f"Leave {name} out")


def _print(made: Proposals, out: Path) -> None:
    from collections import Counter

    pull_requests = len({each.pull_request for each in made.proposals})
    count = f"{len(made.proposals)} finding{'' if len(made.proposals) == 1 else 's'}"
    by = ", ".join(producer.name for producer in made.producers) or "nobody"
    console.print(
        plain(f"{count} for {pull_requests} of the pull requests of {made.corpus} by {by}; wrote {out}"), soft_wrap=True
    )
    kinds = Counter(each.kind for each in made.left_out)
    for kind, number in sorted(kinds.items()):
        first = next(each for each in made.left_out if each.kind == kind)
        place = ", ".join(part for part in (first.file, first.field) if part)
        console.print(plain(f"  {number} x {kind}; {first.problem} ({place})"), soft_wrap=True)
    console.print(
        plain(f"Next: crb corpus label {made.corpus} {out} --judge claude --save NAME"), style="dim", soft_wrap=True
    )
