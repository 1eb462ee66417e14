"""What must hold of a parser for any document."""

from __future__ import annotations

from crb_core.errors import CrbError
from tests.fuzz.targets import Target, own_folder

__all__ = ["check_document"]

#: Longest error text in characters; a document must not be able to fill a terminal through its error.
LONGEST_ERROR = 4000


def check_document(target: Target, data: bytes) -> bool:
    """Whether the document was accepted; AssertionError where the parser broke a promise."""
    with own_folder() as folder:
        try:
            target.read(folder, data)
        except CrbError as error:
            text = str(error)
            assert text.isprintable(), f"{target.name}: the error holds controls: {text!r}"
            assert len(text) <= LONGEST_ERROR, f"{target.name}: the error has {len(text)} characters"
            assert text.endswith("."), f"{target.name}: the error is no sentence: {text!r}"
            return False
        return True
