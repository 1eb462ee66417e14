"""A small store whose sweeps hold everything that an archive has to carry, and archives rewritten on purpose."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import update

from crb_core.agent import Outcome
from crb_core.archive import Exported, export_sweep
from crb_core.corpus import Corpus, CorpusEntry, Producer
from crb_core.evidence import FolderEvidence
from crb_core.finding import CandidateFinding, GoldenFinding, Label, TpFp
from crb_core.formats.archive_private import Private
from crb_core.formats.archive_tar import MANIFEST, ArchiveWriter, open_archive
from crb_core.formats.archive_verify import verify_archive
from crb_core.formats.imported import ImportedCandidate, ImportedJudgment, ImportedPair, ImportedReview
from crb_core.matching import Classification
from crb_core.pull_request import PullRequest, PullRequestTraits
from crb_core.store import Store, open_store
from crb_core.store.imports import import_corpus, import_reviews
from crb_core.store.tables import AttemptRow, core

SWEEP = "trial-run"
FORMULA = '=HYPERLINK("http://example.invalid","x")'


def golden(message: str, line: int, verdict: str = "tp", severity: str = "high", file: str = "a.py") -> GoldenFinding:
    return GoldenFinding(
        file=file,
        start_line=line,
        end_line=line,
        message=message,
        producer="human_review",
        label=Label(
            tp_fp=TpFp(verdict),
            severity=severity,
            category="security",
            provenance={"tp_fp": "human", "severity": "j-0123456789ab"},
        ),
    )


def pull_request(number: int, **more: Any) -> PullRequest:
    return PullRequest.model_validate(
        {
            "key": f"pr-{number}",
            "repo": "https://github.com/acme/shop" if number < 3 else "https://github.com/acme/till",
            "number": number,
            "base": f"{number}" * 40,
            "head": f"{number + 4}" * 40,
            "title": f"Change {number}",
            "traits": PullRequestTraits(language="Python", lines_added=10 * number, repo_size_kb=100 * number),
        }
        | more
    )


def corpus() -> Corpus:
    return Corpus(
        name="little",
        version="1",
        title="Little",
        source="mirror",
        source_template="/srv/mirrors/{owner}/{repo}",
        producers=(Producer(name="human_review", version="2", configuration={"team": "core"}),),
        entries=(
            CorpusEntry(
                pull_request=pull_request(1),
                golden=(golden("g0", 3), golden("g1", 9, severity="low"), golden("g2", 12, "fp")),
            ),
            CorpusEntry(pull_request=pull_request(2), golden=(golden("h0", 1), golden("h1", 2, severity="medium"))),
            CorpusEntry(pull_request=pull_request(3), golden=(golden("i0", 5),)),
        ),
    )


def candidate(message: str, line: int, agent: str) -> ImportedCandidate:
    finding = CandidateFinding(file="a.py", start_line=line, end_line=line + 1, message=message, producer=agent)
    return ImportedCandidate(finding=finding, source={"rule": "R1"} if line == 3 else None)


def reviews(agent: str = "alpha", *, skip: tuple[int, int] | None = None) -> list[ImportedReview]:
    """Three rounds of three pull requests under one judge; ``skip`` (round, number) timed out."""
    found = []
    for number in (1, 2, 3):
        for place, entry in enumerate(corpus().entries, start=1):
            if skip == (number, place):
                found.append(
                    ImportedReview(
                        agent=agent,
                        pull_request=entry.pull_request.key,
                        candidates=(),
                        round=number,
                        outcome=Outcome.TIMEOUT,
                        detail="it took too long in /home/someone/farm/attempts/1",
                    )
                )
                continue
            candidates = [candidate("c0", 3, agent), candidate("c1", 9, agent), candidate(FORMULA, 30, agent)]
            pairs = [ImportedPair(candidate=0, golden=0, probability=0.75, reasoning="the same")]
            if place == 1:
                pairs.append(ImportedPair(candidate=1, golden=(0, 1, 2)[number - 1]))
            claims_second = place == 1 and number > 1
            labels = [
                Classification(
                    candidate=each,
                    label=Label(tp_fp=TpFp.TP if each == 1 else TpFp.FP, severity="low", category="testing"),
                )
                for each in (1, 2)
                if not (each == 1 and claims_second)
            ]
            found.append(
                ImportedReview(
                    agent=agent,
                    pull_request=entry.pull_request.key,
                    candidates=tuple(candidates),
                    round=number,
                    review_ms=None if number == 2 else 1000.0 * number + 7 * place,
                    duration_seconds=4.0 if number == 2 else None,
                    usage={"prompt_tokens": 10 * place, "cost_usd": 0.25} if place < 3 else None,
                    judgments=(
                        ImportedJudgment(
                            judge="people",
                            description={"kind": "imported", "name": "people", "threshold": 0.5},
                            classifies=True,
                            pairs=tuple(pairs),
                            classifications=tuple(labels),
                        ),
                    ),
                )
            )
    return found


def make_store(home: Path, made: list[ImportedReview] | None = None, url: str | None = None) -> Store:
    """A store with the corpus and one sweep, in ``home`` or at ``url``, and evidence of its attempts in ``home``."""
    home.mkdir(parents=True, exist_ok=True)
    store = open_store(url or f"sqlite:///{home / 'crb.sqlite'}")
    evidence = FolderEvidence(home / "evidence")
    kept = evidence.put(b'{"some": "file"}')
    record = {"files": {"golden/one.json": kept}, "options": {"root": "/home/someone/data"}, "irregularities": []}
    with store.write() as connection:
        result = import_corpus(connection, corpus(), record, "reviewbench")
        import_reviews(
            connection,
            made if made is not None else [*reviews("alpha"), *reviews("beta", skip=(2, 3))],
            name=SWEEP,
            corpus_id=result.corpus_id,
            format_name="reviewbench",
            record=record,
        )
        attempts = core(AttemptRow)
        findings = {
            "findings": [
                {"message": m, "start_line": n, "end_line": n + 1} for m, n in (("c0", 3), ("c1", 9), (FORMULA, 30))
            ]
        }
        digests = {
            "findings": evidence.put(json.dumps(findings).encode()),
            "stdout": evidence.put(b"reviewed\n"),
            "stderr": "0" * 64,
        }
        connection.execute(
            update(attempts).where(attempts.c.outcome == "succeeded").values(evidence=digests, host="build-machine-7")
        )
    return store


def export(home: Path, out: Path, store: Store | None = None) -> Exported:
    """Export the sweep of ``make_store``."""
    from crb_core.store.sweeps import find_sweep

    opened = store or open_store(f"sqlite:///{home / 'crb.sqlite'}")
    with opened.read() as connection:
        sweep_id = find_sweep(connection, SWEEP).id
    private = Private([home, Path("/home/someone/farm")], ["s3cret-value"])
    exported = export_sweep(opened, FolderEvidence(home / "evidence"), sweep_id, out, private)
    if store is None:
        opened.close()
    return exported


def contents(path: Path) -> dict[str, bytes]:
    """Every member's bytes, in order, without the manifest."""
    with open_archive(path) as archive:
        return {name: archive.read(name) for name in archive.members if name != MANIFEST}


def rewrite(path: Path, out: Path, changes: Mapping[str, bytes | None], more: Mapping[str, bytes] = {}) -> Path:
    """An archive with some members changed or left out, all digests made anew: what a forger would do."""
    with out.open("wb") as stream:
        writer = ArchiveWriter(stream)
        for name, data in contents(path).items():
            new = changes.get(name, data)
            if new is not None:
                writer.add(name, new)
        for name, data in more.items():
            writer.add(name, data)
        writer.finish()
    return out


def edited(data: bytes, line: int | None, edit: Callable[[Any], None]) -> bytes:
    """A JSON document, or one line of JSON lines (from 1), after ``edit`` changed the value in place."""
    if line is None:
        value = json.loads(data)
        edit(value)
        return json.dumps(value).encode()
    lines = data.split(b"\n")
    value = json.loads(lines[line - 1])
    edit(value)
    lines[line - 1] = json.dumps(value).encode()
    return b"\n".join(lines)


def leaves(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all numbers in a JSON value."""
    if isinstance(value, dict):
        return [path for name, each in value.items() for path in leaves(each, (*at, name))]
    if isinstance(value, list):
        return [path for place, each in enumerate(value) for path in leaves(each, (*at, place))]
    return [at] if isinstance(value, int | float) and not isinstance(value, bool) else []


def bump(value: Any, path: tuple[Any, ...]) -> None:
    """Change the number at ``path`` by its smallest step."""
    import math

    *lead, last = path
    for part in lead:
        value = value[part]
    old = value[last]
    value[last] = math.nextafter(old, math.inf) if isinstance(old, float) else old + 1


#: What a forger may put in place of any value.
JUNK: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    10**40,
    1.5,
    "",
    "x",
    "0" * 64,
    [],
    {},
    [[]],
    {"": 0},
    [None],
    {"recorded": []},
)


def spoil_and_verify(archive: Path, out: Path, *, times: int, seed: int, prefix: str = "") -> None:
    """Replace random values of random records, digests made anew, and verify: every difference can be shown."""
    files = contents(archive)
    draw = random.Random(seed)
    names = [name for name in files if name.endswith((".json", ".jsonl")) and name.startswith(prefix) and files[name]]
    for _ in range(times):
        name = draw.choice(names)
        line = draw.randrange(files[name].count(b"\n")) + 1 if name.endswith("l") else None

        def spoil(value: Any) -> None:
            while True:
                keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
                if not keys:
                    return
                key = draw.choice(keys)
                if not isinstance(value[key], dict | list) or not value[key] or draw.random() < 0.2:
                    value[key] = draw.choice(JUNK)
                    return
                value = value[key]

        for difference in verify_archive(rewrite(archive, out, {name: edited(files[name], line, spoil)})).differences:
            assert difference.file
            assert json.dumps(difference.to_json(), allow_nan=False)
            assert str(difference)
