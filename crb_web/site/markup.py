"""A page of ours as a list of pieces, so that its links can be exchanged without touching anything else.

What a page without a server cannot do is left out: scripts, forms, and elements that a template marks ``data-live``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from html.parser import HTMLParser
from typing import TypeAlias

__all__ = ["Form", "Link", "Page", "parsed"]

Attributes: TypeAlias = dict[str, str | None]

_VOID = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"})
#: Where a page names another file, by element.
_NAMING: Mapping[str, str] = {"a": "href", "link": "href", "img": "src", "source": "srcset"}


@dataclass(frozen=True)
class Form:
    """A form that was left out."""

    attributes: Mapping[str, str | None]


@dataclass(frozen=True)
class Link:
    """What a link becomes: ``href``, or with None the text alone and ``reason`` why."""

    href: str | None
    reason: str = ""


@dataclass(frozen=True)
class _Start:
    tag: str
    attributes: Attributes


@dataclass(frozen=True)
class _End:
    tag: str


@dataclass(frozen=True)
class Page:
    """A parsed page; ``addresses`` are all that it names, in order, as they stand there."""

    pieces: tuple[str | _Start | _End | Form, ...]

    @property
    def addresses(self) -> list[str]:
        found = (self._address(each) for each in self.pieces if isinstance(each, _Start))
        return list(dict.fromkeys(each for each in found if each is not None))

    @property
    def texts(self) -> list[str]:
        """Every text and every value of an attribute."""
        found = [each for each in self.pieces if isinstance(each, str)]
        for each in self.pieces:
            if isinstance(each, _Start):
                found += [value for value in each.attributes.values() if value is not None]
        return found

    @property
    def ids(self) -> set[str]:
        return {
            value
            for each in self.pieces
            if isinstance(each, _Start) and (value := each.attributes.get("id")) is not None
        }

    def completed(self, form: Callable[[Form], Page], before: Mapping[tuple[str, bool], Page]) -> Page:
        """The page with ``form``'s answer in place of each form, and pages in front of the first (tag, whether it
        ends).
        """
        left = dict(before)
        pieces: list[str | _Start | _End | Form] = []
        for each in self.pieces:
            if isinstance(each, _Start | _End) and (added := left.pop((each.tag, isinstance(each, _End)), None)):
                pieces += added.pieces
            pieces += form(each).pieces if isinstance(each, Form) else (each,)
        return Page(tuple(pieces))

    def written(self, link: Callable[[str], Link], text: Callable[[str], str]) -> str:
        """The page as HTML: ``link`` says what an address becomes, ``text`` goes over every text and attribute."""
        written: list[str] = []
        #: One entry an open ``a``: whether it became a span.
        open_links: list[bool] = []
        for each in self.pieces:
            if isinstance(each, str):
                written.append(escape(text(each), quote=False))
            elif isinstance(each, _Start):
                written.append(self._start(each, link, text, open_links))
            elif isinstance(each, _End):
                written.append("</span>" if each.tag == "a" and open_links and open_links.pop() else f"</{each.tag}>")
        return "<!doctype html>\n" + "".join(written).lstrip()

    @staticmethod
    def _address(start: _Start) -> str | None:
        name = _NAMING.get(start.tag)
        return None if name is None else start.attributes.get(name)

    def _start(
        self,
        start: _Start,
        link: Callable[[str], Link],
        text: Callable[[str], str],
        open_links: list[bool],
    ) -> str:
        attributes = dict(start.attributes)
        address = self._address(start)
        tag = start.tag
        if address is not None:
            found = link(address)
            if found.href is not None:
                attributes[_NAMING[tag]] = found.href
            elif tag == "a":
                kept: Attributes = {name: value for name, value in attributes.items() if name in {"class", "id"}}
                attributes = kept | {"title": found.reason}
                tag = "span"
            else:
                return ""
        if start.tag == "a":
            open_links.append(tag == "span")
        said = "".join(
            f" {name}" if value is None else f' {name}="{escape(text(value))}"' for name, value in attributes.items()
        )
        return f"<{tag}{said}>"


def parsed(source: str) -> Page:
    """A page of ours, without what needs a server."""
    parser = _Parser()
    parser.feed(source)
    parser.close()
    return Page(tuple(parser.pieces))


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str | _Start | _End | Form] = []
        self._skipped = ""
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._skipped:
            self._depth += tag == self._skipped
            return
        attributes = dict(attrs)
        if tag == "form" and "data-live" not in attributes:
            self.pieces.append(Form(attributes))
        if tag in {"form", "script"} or "data-live" in attributes:
            if tag not in _VOID:
                self._skipped, self._depth = tag, 1
        elif tag not in {"input", "button", "select", "textarea"}:
            self.pieces.append(_Start(tag, attributes))

    def handle_endtag(self, tag: str) -> None:
        if self._skipped:
            self._depth -= tag == self._skipped
            if not self._depth:
                self._skipped = ""
        elif tag not in {"button", "select", "textarea"}:
            self.pieces.append(_End(tag))

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self.pieces.append(data)
