"""``crb corpus list|show``: what the commands do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from crb_cli.output import console, plain, print_json
from crb_core.settings import Settings, load_settings

if TYPE_CHECKING:
    from crb_core.corpus import Corpus

__all__ = ["list_corpora", "show_corpus"]


def list_corpora(*, as_json: bool) -> None:
    """List the stored corpora, and the bundled ones that are not stored yet."""
    from crb_core.bundled import bundled
    from crb_core.formats.showcase import is_text_corpus
    from crb_core.store import open_store
    from crb_core.store.corpora import list_corpora as stored_corpora

    store = open_store(load_settings().resolved_store_url)
    try:
        with store.read() as connection:
            records: list[dict[str, Any]] = [{**record, "stored": True} for record in stored_corpora(connection)]
    finally:
        store.close()
    names = {record["name"] for record in records}
    for folder in sorted(bundled("corpus").iterdir()):
        if folder.name not in names and folder.is_dir() and is_text_corpus(folder):
            records.append(_bundled_record(folder))
    if as_json:
        print_json({"corpora": records})
        return
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("corpus", "version", "protocol", "pull requests", "golden", "fingerprint", ""):
        table.add_column(title, justify="right" if title in {"pull requests", "golden"} else "left", overflow="fold")
    for record in records:
        table.add_row(
            plain(str(record["name"])),
            plain(str(record["version"])),
            str(record["protocol"]),
            str(record["pull_requests"]),
            str(record["golden_findings"]),
            str(record["fingerprint"])[:12],
            "" if record["stored"] else "bundled",
        )
    console.print(table)


def show_corpus(name: str, *, as_json: bool) -> None:
    """Show a corpus: where it comes from, its pull requests, and in JSON its golden findings with their ids."""
    from crb_cli.sweep import load_named_corpus
    from crb_core.golden_sets import provenance_counts

    settings = load_settings()
    corpus = load_named_corpus(settings, name)
    imports = _import_records(settings, corpus)
    if as_json:
        print_json(
            {
                "corpus": corpus.name,
                "fingerprint": corpus.fingerprint,
                **corpus.model_dump(mode="json", exclude={"entries", "name"}),
                "imports": imports,
                "label_provenance": provenance_counts(corpus),
                "pull_requests": [
                    {
                        **entry.pull_request.model_dump(mode="json"),
                        "answer_key_fingerprint": entry.answer_key_fingerprint,
                        "golden": [
                            {
                                "finding_id": finding.finding_id(entry.pull_request.key),
                                **finding.model_dump(mode="json", exclude_none=True),
                            }
                            for finding in entry.golden
                        ],
                    }
                    for entry in corpus.entries
                ],
            }
        )
        return
    console.print(plain(f"{corpus.name} {corpus.version}: {corpus.title}"), style="bold")
    console.print(plain(f"protocol {corpus.protocol}, fingerprint {corpus.fingerprint}"))
    source = corpus.source if corpus.source_template is None else f"{corpus.source} {corpus.source_template}"
    console.print(plain(f"repositories: {source}" if source != "none" else "repositories: not recorded"))
    labelled = ", ".join(f"{count} {by}" for by, count in provenance_counts(corpus).get("tp_fp", {}).items())
    console.print(plain(f"tp/fp labels by: {labelled}" if labelled else "no golden findings"), soft_wrap=True)
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("pull request", "language", "tp", "fp", "title"):
        table.add_column(title, justify="right" if title in {"tp", "fp"} else "left", overflow="fold")
    for entry in corpus.entries:
        tp = sum(finding.label.tp_fp.value == "tp" for finding in entry.golden)
        table.add_row(
            plain(entry.pull_request.key),
            plain(entry.pull_request.traits.language or "–"),
            str(tp),
            str(len(entry.golden) - tp),
            plain(entry.pull_request.title),
        )
    console.print(table)


def _bundled_record(folder: Path) -> dict[str, Any]:
    from crb_cli.corpus import read_corpus

    corpus = read_corpus(folder)
    return {
        "name": corpus.name,
        "version": corpus.version,
        "title": corpus.title,
        "protocol": corpus.protocol,
        "fingerprint": corpus.fingerprint,
        "pull_requests": len(corpus.entries),
        "golden_findings": sum(len(entry.golden) for entry in corpus.entries),
        "stored": False,
    }


def _import_records(settings: Settings, corpus: Corpus) -> list[dict[str, Any]]:
    from sqlalchemy import select

    from crb_core.store import open_store
    from crb_core.store.imports import import_records
    from crb_core.store.tables import CorpusRow, core

    corpora = core(CorpusRow)
    store = open_store(settings.resolved_store_url)
    try:
        with store.read() as connection:
            known = connection.execute(
                select(corpora.c.id).where(corpora.c.name == corpus.name, corpora.c.fingerprint == corpus.fingerprint)
            ).scalar_one_or_none()
            return [] if known is None else import_records(connection, "corpus", str(known))
    finally:
        store.close()
