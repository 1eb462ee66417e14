"""What all pages share: templates, static files and the words of marks."""

from __future__ import annotations

from importlib import resources
from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response
from jinja2 import Environment, PackageLoader, StrictUndefined

from crb_core.calibration_words import calibration_words
from crb_core.runners import NOT_ISOLATED, RUNNERS
from crb_web import show
from crb_web.errors import NotFoundError

__all__ = ["render", "render_part", "router"]

router = APIRouter(include_in_schema=False)

#: By file name, the only files that are served from static/.
STATIC = {
    "crb.css": "text/css; charset=utf-8",
    "pages.css": "text/css; charset=utf-8",
    "crb.js": "text/javascript; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}

MARKS = {
    "recorded": "replays scripted reviews, no real reviewer",
    "not isolated": f"{NOT_ISOLATED}: {' '.join(RUNNERS['process'].limitations)}",
    "imported": "ran elsewhere; whether the answer key is older than the trials is not recorded",
    "cores shared": "its containers shared cores, so durations are longer than on cores of their own",
    "duration includes retries": "the recorded seconds of an imported review include its retries",
}


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("crb_web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # They belong to the installed program, which is started anew for another version.
        auto_reload=False,
    )
    # Every value from outside goes through `visible`, which escapes; autoescape covers what a template forgets.
    environment.filters |= {
        "visible": show.visible,
        "plain": show.plain,
        "clipped": show.clipped,
        "clipped_line": show.clipped_line,
        "clipped_title": show.clipped_title,
        "signed": show.signed,
        "number": show.number,
        "seconds": show.seconds,
        "exact": show.exact,
        "calibrated": calibration_words,
    }
    environment.globals |= {"reason_of": show.reason_of, "why_unranked": show.why_unranked, "MARKS": MARKS}
    return environment


_TEMPLATES = _environment()


def render(template: str, status: int = 200, **values: Any) -> Response:
    """A page in UTF-8."""
    text = _TEMPLATES.get_template(template).render(**values)
    return Response(text.encode("utf-8", "replace"), status_code=status, media_type="text/html; charset=utf-8")


def render_part(template: str, macro: str, **values: Any) -> str:
    """What a macro of a template gives: a fragment of a page."""
    return str(getattr(_TEMPLATES.get_template(template).module, macro)(**values))


@router.get("/static/{name}")
def static(name: str) -> Response:
    """One of our own files."""
    if name not in STATIC:
        raise NotFoundError("There is no such file")
    data = resources.files("crb_web").joinpath("static", name).read_bytes()
    return Response(data, media_type=STATIC[name], headers={"cache-control": "private, max-age=300"})
