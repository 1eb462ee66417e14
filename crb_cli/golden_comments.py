"""The leaderboard of a golden-comments sweep: ``crb leaderboard`` hands over to this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from crb_cli.output import console, plain, print_json
from crb_core.strata import EVERYTHING, Subset

if TYPE_CHECKING:
    from crb_core.bootstrap import Bootstrap
    from crb_core.golden_leaderboard import CommentRow
    from crb_core.store import Store
    from crb_core.store.results import StoredJudge, SweepResults

__all__ = ["PROTOCOL", "Options", "build_rows", "leaderboard", "refuse_options"]

PROTOCOL = "golden-comments"

_COUNTING = {
    True: "compatible: counts the recorded lists as the public tool does; no profile, beta 1, 0 where undefined",
    False: "strict: positions inside the profile, one false positive a dedup group; undefined is null",
}


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to count. ``profile`` None is the protocol's default."""

    compatible: bool = False
    profile: str | None = None
    dedup: bool = True
    beta: float = 1.0
    subset: Subset = EVERYTHING
    partial: bool = False

    @property
    def chosen_profile(self) -> str | None:
        """The profile's name; None for no profile."""
        from crb_core.golden_leaderboard import NO_PROFILE
        from crb_core.protocols.golden_comments import DEFAULT_PROFILE

        if self.compatible or self.profile == NO_PROFILE:
            return None
        return self.profile or DEFAULT_PROFILE

    def check(self) -> None:
        """Refuse what contradicts ``--compatible``, which has no settings of its own."""
        from crb_core.errors import InputError

        given = [
            name
            for name, is_given in (
                ("--profile", self.profile is not None),
                ("--no-dedup", not self.dedup),
                ("--beta", self.beta != 1.0),
                ("--severity or --category", bool(self.subset.restricted)),
            )
            if is_given
        ]
        if self.compatible and given:
            raise InputError(
                f"--compatible counts as the public tool does and takes no {given[0]}",
                remedy="Leave out one of them",
            )


def refuse_options(protocol: str, *, compatible: bool, profile: str | None, no_dedup: bool) -> None:
    """Refuse this protocol's own options for a sweep of another one."""
    from crb_core.errors import InputError

    for name, is_given in (("--compatible", compatible), ("--profile", profile is not None), ("--no-dedup", no_dedup)):
        if is_given:
            raise InputError(
                f"{name} belongs to the protocol {PROTOCOL}, and this sweep is of {protocol}",
                remedy=f"Leave {name} out or name another sweep",
            )


def leaderboard(store: Store, sweep_id: str, *, judges: Sequence[str], options: Options, as_json: bool) -> None:
    """Print the rows of all judges, or of those named."""
    from crb_core.bootstrap import Bootstrap
    from crb_core.protocols import protocol_named
    from crb_core.store.results import find_judge, sweep_judges

    options.check()
    protocol_named(PROTOCOL).check_subset(options.subset)
    with store.read() as connection:
        every = sweep_judges(connection, sweep_id)
        known = {name for each in every for name in (each.name, each.judge_id)}
        # The recorded model's own name may be given too; its folder has _ for /.
        chosen = (
            [find_judge(connection, sweep_id, name if name in known else name.replace("/", "_")) for name in judges]
            if judges
            else every
        )
    bootstrap = Bootstrap()
    boards = [(judge, *build_rows(store, sweep_id, judge, options, bootstrap)) for judge in chosen]
    if not boards:
        from crb_core.errors import InputError

        raise InputError("The sweep has no judgments", remedy="Judge it with `crb judge run`")
    if as_json:
        print_json(board_json([(judge, rows) for judge, rows, _ in boards], boards[0][2], options))
        return
    for judge, rows, results in boards:
        _print(judge, rows, results, options)


def build_rows(
    store: Store, sweep_id: str, judge: StoredJudge, options: Options, bootstrap: Bootstrap | None = None
) -> tuple[tuple[CommentRow, ...], SweepResults]:
    """A sweep's rows under one judge, counted anew from what is stored; ``bootstrap`` adds intervals and letters."""
    from crb_core.golden_leaderboard import compatible_rows, strict_rows
    from crb_core.identity import RowIdentity
    from crb_core.store.comment_results import load_comment_trials, scorable_pull_requests

    with store.read() as connection:
        results, by_build = load_comment_trials(connection, sweep_id, judge)
        keys = scorable_pull_requests(connection, sweep_id)
    builds = [
        (
            build,
            RowIdentity.of_build(
                build, corpus_fingerprint=results.corpus_fingerprint, protocol=PROTOCOL, judge=judge.judge_id
            ),
            by_build[build.build_id],
        )
        for build in results.builds
    ]
    if options.compatible:
        return compatible_rows(builds, judge=judge.name), results
    rows = strict_rows(
        builds,
        judge=judge.name,
        pull_requests=keys,
        profile=options.chosen_profile,
        beta=options.beta,
        dedup=options.dedup,
        subset=options.subset,
        allow_partial=options.partial,
        bootstrap=bootstrap,
    )
    return rows, results


def board_json(
    boards: Sequence[tuple[StoredJudge, Sequence[CommentRow]]], results: SweepResults, options: Options
) -> dict[str, Any]:
    """``crb.leaderboard/1`` of this protocol: the rows of every judge, each naming its judge."""
    from crb_core.bootstrap import Bootstrap

    return {
        "format": "crb.leaderboard/1",
        "sweep": results.sweep_name,
        "sweep_id": results.sweep_id,
        "corpus": results.corpus,
        "corpus_fingerprint": results.corpus_fingerprint,
        "protocol": PROTOCOL,
        "counting": "compatible" if options.compatible else "strict",
        "counting_note": _COUNTING[options.compatible],
        "profile": options.chosen_profile,
        "dedup": None if options.compatible else options.dedup,
        "beta": options.beta,
        "subset": options.subset.to_json(),
        "sort": "f",
        "uncertainty": None if options.compatible else Bootstrap().to_json(),
        "judges": [
            {"name": judge.name, "fingerprint": judge.judge_id, "classifies": judge.classifies} for judge, _ in boards
        ],
        "rows": [row.to_json() for _, rows in boards for row in rows],
    }


def _print(judge: StoredJudge, rows: Sequence[CommentRow], results: SweepResults, options: Options) -> None:
    console.print()
    console.print(
        Text.assemble(
            ("Leaderboard ", "bold"),
            plain(f"of sweep {results.sweep_name}, corpus {results.corpus}, protocol {PROTOCOL}, judge {judge.name}"),
        )
    )
    console.print(plain(f"Counting {_COUNTING[options.compatible]}."), style="dim")
    if not options.compatible:
        profile = options.chosen_profile or "none"
        dedup = "on" if options.dedup else "off"
        console.print(plain(f"profile {profile}, beta {options.beta:g}, dedup {dedup}"), style="dim")
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("#", justify="right")
    table.add_column("agent", overflow="fold")
    for title in ("tp", "fp", "fn", "precision", "recall", f"F{options.beta:g}", "macro F1", "reviews"):
        table.add_column(title, justify="right")
    table.add_column("", overflow="fold", max_width=3)
    for row in rows:
        figures = row.figures
        planned = f"/{figures['planned']}" if "planned" in figures else ""
        table.add_row(
            "-" if row.rank is None else str(row.rank),
            plain(row.build.agent),
            *("–" if figures[name] is None else str(figures[name]) for name in ("tp", "fp", "fn")),
            *(
                "–" if figures[name] is None else f"{figures[name]:.4f}"
                for name in ("precision", "recall", "f", "macro_f1")
            ),
            f"{figures['reviews']}{planned}",
            row.letters or "",
        )
        if figures.get("intervals"):
            table.add_row(
                *("", "", "", "", Text("95%", style="dim")),
                *(
                    Text(_bounds(figures["intervals"]["micro"][name]), style="dim")
                    for name in ("precision", "recall", "f")
                ),
                *("", "", ""),
            )
    console.print(table)
    if any(row.letters for row in rows):
        console.print("95%: bootstrap over pull requests. Rows that share a letter cannot be told apart.", style="dim")
    marks: dict[str, list[str]] = {}
    for row in rows:
        for mark in row.marks:
            marks.setdefault(mark, []).append(row.build.agent)
    for mark, agents in marks.items():
        console.print(Text.assemble((mark, "yellow"), ": ", plain(", ".join(dict.fromkeys(agents)))))


def _bounds(interval: Mapping[str, Any]) -> str:
    """``.42–.71``; empty where there is no interval."""
    if interval["low"] is None:
        return ""
    return "–".join(
        "1.0" if bound >= 0.995 else f"{bound:.2f}".lstrip("0") for bound in (interval["low"], interval["high"])
    )
