"""Corpora in the store."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select

from crb_core.clock import utc_now
from crb_core.corpus import Corpus, CorpusEntry
from crb_core.errors import InputError, Where
from crb_core.finding import GoldenFinding
from crb_core.pull_request import PullRequest
from crb_core.store.tables import CorpusRow, GoldenRow, PullRequestRow, core
from crb_core.store.texts import by_characters

__all__ = ["find_corpus", "list_corpora", "load_corpus", "pull_request_ids", "save_corpus"]

corpora = core(CorpusRow)
pull_requests = core(PullRequestRow)
goldens = core(GoldenRow)


def save_corpus(connection: Connection, corpus: Corpus) -> int:
    """Store a corpus and return its id; the same content again is the same id and writes nothing.

    InputError where that content is stored under the same name for another protocol, which would be scored by it.
    """
    fingerprint = corpus.fingerprint
    known = connection.execute(
        select(corpora.c.id, corpora.c.protocol).where(
            corpora.c.name == corpus.name, corpora.c.fingerprint == fingerprint
        )
    ).one_or_none()
    if known is not None and known.protocol != corpus.protocol:
        raise InputError(
            f"the corpus {corpus.name} is stored for the protocol {known.protocol}, not {corpus.protocol}",
            where=Where(field="protocol"),
            remedy="Give the corpus of the other protocol another name",
        )
    if known is not None:
        return int(known.id)
    corpus_id: int = connection.execute(
        insert(corpora)
        .values(
            name=corpus.name,
            fingerprint=fingerprint,
            version=corpus.version,
            title=corpus.title,
            protocol=corpus.protocol,
            document=corpus.model_dump(mode="json", exclude={"entries"}),
            imported_at=utc_now(),
        )
        .returning(corpora.c.id)
    ).scalar_one()
    for position, entry in enumerate(corpus.entries):
        pull_request_id = connection.execute(
            insert(pull_requests)
            .values(
                corpus_id=corpus_id,
                position=position,
                key=entry.pull_request.key,
                answer_key_fingerprint=entry.answer_key_fingerprint,
                document=entry.pull_request.model_dump(mode="json"),
            )
            .returning(pull_requests.c.id)
        ).scalar_one()
        if entry.golden:
            connection.execute(
                insert(goldens),
                [
                    {
                        "pull_request_id": pull_request_id,
                        "position": place,
                        "finding_id": golden.finding_id(entry.pull_request.key),
                        "document": golden.model_dump(mode="json", exclude_none=True),
                    }
                    for place, golden in enumerate(entry.golden)
                ],
            )
    return corpus_id


def find_corpus(connection: Connection, name: str) -> int:
    """The id of the newest stored corpus of that name; InputError when there is none."""
    found = connection.execute(
        select(corpora.c.id).where(corpora.c.name == name).order_by(corpora.c.id.desc()).limit(1)
    ).scalar_one_or_none()
    if found is None:
        raise InputError(
            f"There is no corpus named {name} in the store", remedy="`crb corpus list` shows the stored ones"
        )
    return int(found)


def load_corpus(connection: Connection, corpus_id: int) -> Corpus:
    """A stored corpus with all its entries, in order."""
    row = connection.execute(select(corpora.c.document).where(corpora.c.id == corpus_id)).one()
    golden: dict[int, list[GoldenFinding]] = {}
    for pull_request_id, document in connection.execute(
        select(goldens.c.pull_request_id, goldens.c.document)
        .join(pull_requests, pull_requests.c.id == goldens.c.pull_request_id)
        .where(pull_requests.c.corpus_id == corpus_id)
        .order_by(goldens.c.pull_request_id, goldens.c.position)
    ):
        golden.setdefault(pull_request_id, []).append(GoldenFinding.model_validate(document))
    entries = [
        CorpusEntry(pull_request=PullRequest.model_validate(document), golden=tuple(golden.get(pull_request_id, ())))
        for pull_request_id, document in connection.execute(
            select(pull_requests.c.id, pull_requests.c.document)
            .where(pull_requests.c.corpus_id == corpus_id)
            .order_by(pull_requests.c.position)
        )
    ]
    return Corpus.model_validate({**row.document, "entries": entries})


def pull_request_ids(connection: Connection, corpus_id: int) -> dict[str, int]:
    """Row ids by pull-request key, in corpus order."""
    rows = connection.execute(
        select(pull_requests.c.key, pull_requests.c.id)
        .where(pull_requests.c.corpus_id == corpus_id)
        .order_by(pull_requests.c.position)
    )
    return {row.key: row.id for row in rows}


def list_corpora(connection: Connection) -> list[dict[str, object]]:
    """One record a stored corpus: name, version, title, protocol, fingerprint, pull requests, golden findings."""
    from sqlalchemy import func

    counted = (
        select(
            corpora.c.id,
            corpora.c.name,
            corpora.c.version,
            corpora.c.title,
            corpora.c.protocol,
            corpora.c.fingerprint,
            func.count(pull_requests.c.id.distinct()).label("pull_requests"),
            func.count(goldens.c.id).label("golden_findings"),
        )
        .outerjoin(pull_requests, pull_requests.c.corpus_id == corpora.c.id)
        .outerjoin(goldens, goldens.c.pull_request_id == pull_requests.c.id)
        .group_by(corpora.c.id)
        .order_by(by_characters(corpora.c.name), corpora.c.id)
    )
    return [dict(row._mapping) for row in connection.execute(counted)]
