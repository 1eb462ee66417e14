"""Writes a site: asks the pages of a store that does not change, exchanges their links, and keeps what they name."""

from __future__ import annotations

import asyncio
import posixpath
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

from fastapi import FastAPI

from crb_core.errors import InputError, StoreError
from crb_core.formats.archive_private import Private
from crb_core.formats.archive_tar import content_digest
from crb_core.settings import Settings
from crb_core.store.audit_findings import pull_request_record
from crb_web.app import reading_app
from crb_web.pages import render
from crb_web.pull_request_page import MOST_CARDS
from crb_web.renderer import rendering_processes
from crb_web.site.addresses import Addresses, Target
from crb_web.site.choices import choice
from crb_web.site.folder import SiteFolder, site_folder
from crb_web.site.in_process import ask
from crb_web.site.markup import Form, Link, Page, parsed
from crb_web.site.moment import last_moment
from crb_web.site.plan import TOP_BUILDS, SitePlan, planned
from crb_web.site.still import still_settings
from crb_web.site.stored import StoredFiles
from crb_web.sources import Sources
from crb_web.sweep_view import SweepViews

__all__ = ["ExportedSite", "export_site"]

#: As strict as the server's header; a page of a site has no script and no form, and ``frame-ancestors`` needs a header.
POLICY = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'none'; base-uri 'none'"
_HEAD = f"""
<meta http-equiv="content-security-policy" content="{POLICY}">
<meta name="referrer" content="no-referrer">"""
#: Pages that are made at once.
AT_ONCE = 4
_NEEDS_SERVER = "Not in this site; `crb serve` shows it"


@dataclass(frozen=True, kw_only=True)
class ExportedSite:
    """What was written. ``missing`` and ``withheld``: SHA-256 of blobs that pages name and the site does not hold."""

    content_sha256: str
    files: int
    bytes: int
    pages: int
    missing: tuple[str, ...]
    withheld: tuple[str, ...]


def export_site(
    settings: Settings,
    private: Private,
    target: Path,
    progress: Callable[[int, int], None] = lambda _done, _known: None,
) -> ExportedSite:
    """Write every page of the store to the folder ``target``; the same store gives the same bytes.

    ``progress`` is told how many pages are written, and of how many known ones. InputError where ``target`` is taken or
    cannot be written, or where there is no sweep; StoreError where the store cannot be read.
    """
    with site_folder(target) as folder, rendering_processes() as renderer:
        app = reading_app(still_settings(settings, folder.scratch))
        app.state.renderer = renderer
        return asyncio.run(_write(app, folder, private, progress))


async def _write(
    app: FastAPI, folder: SiteFolder, private: Private, progress: Callable[[int, int], None]
) -> ExportedSite:
    async with app.router.lifespan_context(app):
        sources: Sources = app.state.sources
        with sources.store().read() as connection:
            moment = last_moment(connection)
        # What a page says of a sweep that still runs must not depend on when it is exported.
        app.state.sweep_views = SweepViews(sources, 0.0, still_at=moment)
        plan = planned(app.state.boards)
        if not plan.sweeps:
            raise InputError("the store holds no sweep", remedy="Run `crb demo` or start a sweep first")
        site = _Site(app, plan, moment, folder, private, progress)
        await site.write()
    return ExportedSite(
        content_sha256=content_digest({path: digest for path, (_, digest) in folder.files.items()}),
        files=len(folder.files) + 1,
        bytes=sum(size for size, _ in folder.files.values()),
        pages=site.written,
        missing=tuple(sorted(site.stored.missing)),
        withheld=tuple(sorted(site.stored.withheld)),
    )


class _Site:
    """Goes from the pages of the plan to all that they link to, one sweep after the other."""

    def __init__(
        self,
        app: FastAPI,
        plan: SitePlan,
        moment: datetime,
        folder: SiteFolder,
        private: Private,
        progress: Callable[[int, int], None],
    ) -> None:
        self._app = app
        self._plan = plan
        self._moment = moment
        self._folder = folder
        self._private = private
        self._progress = progress
        self._queue: deque[Target] = deque()
        self._known: set[str] = set()
        self._rounds: dict[tuple[str, str, str], tuple[bool, dict[tuple[str, int], int]]] = {}
        self.addresses = Addresses(plan, lambda sweep, key, judge: self._pull_request(sweep, key, judge)[0])
        self.stored = StoredFiles(app, folder, private, app.state.renderer)
        self.written = 0

    async def write(self) -> None:
        """Every page, and the contents at the end."""
        for sweep in self._plan.sweeps:
            for target in self.addresses.pages(sweep):
                self._need(target)
                # Pages of one judge together, so that its findings are loaded once.
                await self._write_needed()
        contents = self.addresses.target("/contents")
        assert contents is not None
        self._need(contents)
        await self._write_needed()

    async def _write_needed(self) -> None:
        """Pages until none is needed any more; some at once, so that one is made while another waits for drawings."""
        running: set[asyncio.Task[None]] = set()
        try:
            while self._queue or running:
                while self._queue and len(running) < AT_ONCE:
                    running.add(asyncio.create_task(self._write_page(self._queue.popleft())))
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    each.result()
        finally:
            for each in running:
                each.cancel()

    def _need(self, target: Target) -> None:
        if target.path not in self._known:
            self._known.add(target.path)
            self._queue.append(target)

    async def _write_page(self, target: Target) -> None:
        if target.page == "contents":
            source = bytes(render("site_contents.html", plan=self._plan, top=TOP_BUILDS, moment=self._moment).body)
        else:
            answer = await ask(self._app, target.address)
            if answer.status >= 500:
                raise StoreError(f"The page {target.address} cannot be made", remedy="`crb serve` says why")
            source = answer.body
        data = self.addresses.target(target.data)
        has_data = data is not None and (await self.stored.stored(data)).path is not None
        page = parsed(source.decode("utf-8")).completed(
            lambda form: self._choice(target, form),
            {
                ("title", False): parsed(_HEAD + "\n"),
                ("main", True): parsed(_text("site_end.html", data=target.data if has_data else None)),
            },
        )
        # Together, so that pictures are drawn side by side.
        found = await asyncio.gather(*(self._link(address, target) for address in page.addresses))
        links = dict(zip(page.addresses, found, strict=True))
        self._folder.add(target.path, page.written(links.__getitem__, self._scrubber(page)).encode("utf-8"))
        self.written += 1
        self._progress(self.written, len(self._known))

    def _scrubber(self, page: Page) -> Callable[[str], str]:
        """What goes over each text of a page. Nearly none holds anything private, as one look at all of them tells."""
        words = "\n".join(page.texts)
        return self._private.text if self._private.text(words) != words else lambda text: text

    def _choice(self, target: Target, form: Form) -> Page:
        many = (
            bool(target.key)
            and self._pull_request(target.sweep.id if target.sweep else "", target.key, target.judge)[0]
        )
        found = choice(self._plan, target, form, too_many=many)
        return parsed("" if found is None else _text("site_choice.html", choice=found))

    async def _link(self, address: str, base: Target) -> Link:
        """What an address on a page becomes there."""
        if address.startswith("#"):
            return Link(address)
        parts = urlsplit(urljoin(base.address, address))
        if parts.scheme or parts.netloc:
            return Link(None, "Elsewhere")
        wanted = parts.path + (f"?{parts.query}" if parts.query else "")
        target = self.addresses.target(wanted)
        if target is None:
            return Link(None, _NEEDS_SERVER)
        if target.kind == "page":
            self._need(target)
            fragment = self._fragment(target, wanted, parts.fragment)
            return Link(_relative(target.path, base.path) + (f"#{fragment}" if fragment else ""))
        stored = await self.stored.stored(target)
        return Link(None, stored.reason) if stored.path is None else Link(_relative(stored.path, base.path))

    def _fragment(self, target: Target, wanted: str, fragment: str) -> str:
        """A round of one build is on a page of all builds its trial."""
        if target.page != "pull request" or target.build or not fragment.startswith("round-"):
            return fragment
        build = parse_qs(urlsplit(wanted).query).get("build", [""])[0]
        number = fragment.removeprefix("round-")
        assert target.sweep is not None
        trials = self._pull_request(target.sweep.id, target.key, target.judge)[1]
        trial = trials.get((build, int(number))) if number.isdecimal() else None
        return "" if trial is None else f"trial-{trial}"

    def _pull_request(self, sweep: str, key: str, judge: str) -> tuple[bool, dict[tuple[str, int], int]]:
        """Whether one page is too small for its findings, and its trials by build and round."""
        name = (sweep, key, judge)
        if name not in self._rounds:
            with self._app.state.sources.store().read() as connection:
                found = pull_request_record(connection, sweep, key, judge)
            trials = [] if found is None else found["trials"]
            self._rounds[name] = (
                sum(len(each["candidates"]) for each in trials) > MOST_CARDS,
                {(each["build"], each["round"]): each["trial"] for each in trials},
            )
        return self._rounds[name]


def _relative(path: str, base: str) -> str:
    return posixpath.relpath(path, posixpath.dirname(base) or ".")


def _text(template: str, **values: Any) -> str:
    return bytes(render(template, **values).body).decode("utf-8")
