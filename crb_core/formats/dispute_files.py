"""Disputes in a folder, one ``crb.dispute/1`` file each: people review, send and publish them like any other text.

A file is named after its dispute. Other files in the folder are left alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from crb_core.dispute import Dispute
from crb_core.errors import InputError, StoreError, Where, first_problem
from crb_core.formats.strict_json import load_json

__all__ = ["DisputeFolder"]

#: Largest file of a dispute, in bytes.
MAX_BYTES = 1024 * 1024


class DisputeFolder:
    """The disputes of one folder. The folder need not be there before the first one is added."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read_all(self) -> tuple[Dispute, ...]:
        """Every dispute, the earliest submitted first. InputError, with file and field, for one that is damaged."""
        if not self.path.is_dir():
            return ()
        found = [self._read(path) for path in sorted(self.path.glob("d-*.json"))]
        return tuple(sorted(found, key=lambda each: (each.submission.submitted_at, each.id)))

    def read(self, dispute_id: str) -> Dispute:
        """One dispute by its id; InputError where there is none."""
        for each in self.read_all():
            if each.id == dispute_id:
                return each
        raise InputError(
            f"there is no dispute {dispute_id!r}",
            where=Where(file=str(self.path)),
            remedy="`crb dispute list` shows them; --folder names another folder",
        )

    def add(self, dispute: Dispute) -> Path:
        """Write a new dispute and return its file; InputError where the same question is open with the same answer."""
        with self._held():
            for each in self.read_all():
                is_same = (each.submission.question, each.submission.proposed) == (
                    dispute.submission.question,
                    dispute.submission.proposed,
                )
                if is_same and each.decision is None:
                    raise InputError(
                        f"the dispute {each.id} asks for the same and is open", remedy="Wait for its decision"
                    )
            return self._write(dispute)

    def decide(self, dispute: Dispute) -> Path:
        """Write the decision of a dispute that is open until now, and return its file."""
        with self._held():
            if (known := self.read(dispute.id)).decision is not None:
                raise InputError(f"the dispute {dispute.id} was decided meanwhile: {known.state}")
            return self._write(dispute)

    def _read(self, path: Path) -> Dispute:
        document = load_json(path, max_bytes=MAX_BYTES)
        try:
            found = Dispute.model_validate(document)
        except ValidationError as error:
            field, message = first_problem(error)
            raise InputError(
                f"the dispute cannot be used: {message}", where=Where(file=str(path), field=field or None)
            ) from None
        if path.stem != found.id:
            raise InputError(
                f"the file holds the dispute {found.id}",
                where=Where(file=str(path)),
                remedy=f"Name it {found.id}.json",
            )
        return found

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Alone among the programs that write here, so that two people cannot decide one dispute."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise _unwritable(self.path, error) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _write(self, dispute: Dispute) -> Path:
        path = self.path / f"{dispute.id}.json"
        text = json.dumps(dispute.model_dump(mode="json"), ensure_ascii=False, indent=2, allow_nan=False) + "\n"
        temporary = None
        try:
            with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=self.path, delete=False) as stream:
                temporary = Path(stream.name)
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            # Temporary files are their owner's alone; these are to be published.
            temporary.chmod(0o644)
            temporary.replace(path)
        except OSError as error:
            if temporary is not None:
                temporary.unlink(missing_ok=True)
            raise _unwritable(path, error) from None
        return path


def _unwritable(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"the disputes cannot be written: {error.strerror}",
        where=Where(file=str(path)),
        remedy="Name another --folder",
    )
