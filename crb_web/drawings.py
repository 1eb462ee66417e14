"""Pictures of a leaderboard as SVG and PNG, drawn by Vega-Lite inside this process: no network, no browser, no script.

An SVG holds neither styles nor scripts, so it shows under the strictest content security policy, and the same picture
gives the same bytes. Light and dark are two drawings, because a drawing without styles cannot ask which is wanted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from markupsafe import Markup

from crb_core.pictures import Picture
from crb_web.drawing_specs import body
from crb_web.renderer import HERE, Renderer
from crb_web.show import plain

__all__ = ["Theme", "png", "svg", "told"]

Theme: TypeAlias = Literal["light", "dark"]

_COLOURS: Mapping[str, Mapping[str, str]] = {
    "light": {
        "ground": "#ffffff",
        "text": "#16191d",
        "quiet": "#50585f",
        "line": "#d5dbe1",
        "mark": "#0b5cad",
        "mark_text": "#ffffff",
        "second": "#9cc3ea",
        "empty": "#f3f5f8",
    },
    "dark": {
        "ground": "#14171a",
        "text": "#e9ecef",
        "quiet": "#aeb7c0",
        "line": "#363d44",
        "mark": "#8fc1ff",
        "mark_text": "#14171a",
        "second": "#35597f",
        "empty": "#1e2328",
    },
}
#: The one picture whose colours are mixed, so that each theme has to be drawn by itself.
_MIXED = "strata"
_DARK = {colour: _COLOURS["dark"][name] for name, colour in _COLOURS["light"].items()}
_TAG = re.compile(r"<[^>]*>")
_COLOUR = re.compile("|".join(f'(?<="){colour}(?=")' for colour in _DARK))
_SIZE = re.compile(r' width="([0-9.]+)" height="([0-9.]+)"')
_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
_ROOT = re.compile(r"<svg ([^>]*)>")


def svg(
    picture: Picture,
    *,
    theme: Theme = "light",
    narrow: bool = False,
    ground: bool = False,
    renderer: Renderer = HERE,
) -> str:
    """The picture as a document of its own; ``ground`` fills its background, for use elsewhere than on our pages.

    Drawing takes most of the time of a site, so a background and, where it can be, another theme are put into what is
    drawn already: the same bytes as if it were drawn anew.
    """
    is_mixed = picture.name == _MIXED
    drawn = renderer.svg(_text(picture, theme if is_mixed else "light", narrow))
    if theme == "dark" and not is_mixed:
        # Only inside of tags: a label may be text that looks like a colour.
        drawn = _TAG.sub(lambda tag: _COLOUR.sub(lambda found: _DARK[found[0]], tag[0]), drawn)
    head = Markup(
        '<svg {} role="img" aria-labelledby="title text"><title id="title">{}</title><desc id="text">{}</desc>'
    )
    match = _ROOT.match(drawn)
    assert match is not None
    # What the drawing library wrote of our own specification: sizes, no text from outside.
    attributes = Markup(match[1])  # nosec B704
    size = _SIZE.search(match[1])
    assert size is not None
    filled = f'<rect width="{size[1]}" height="{size[2]}" fill="{_COLOURS[theme]["ground"]}"/>' if ground else ""
    return str(head.format(attributes, plain(picture.title), told(picture))) + filled + drawn[match.end() :]


def png(picture: Picture, *, theme: Theme = "light", renderer: Renderer = HERE) -> bytes:
    """The same with its background, two pixels for each of the SVG's."""
    return renderer.png(svg(picture, theme=theme, ground=True, renderer=renderer))


def told(picture: Picture) -> str:
    """The picture in words: every record of it, or why it is empty."""
    said = [picture.caption]
    for record in picture.records:
        figures = ", ".join(
            f"{name.replace('_', ' ')} {_figure(value)}"
            for name, value in record.items()
            if name not in {"place", "agent", "build", "values"} and value is not None
        )
        said.append(f"{record['place']} {plain(record['agent'])}: {figures}.")
    said += [f"{each['place']} {plain(each['agent'])} is absent: {plain(each['reason'])}." for each in picture.absent]
    return " ".join(said)


def _figure(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else plain(value)


def _text(picture: Picture, theme: Theme, narrow: bool) -> str:
    """The specification as JSON."""
    colours = _COLOURS[theme]
    spec = {
        "$schema": _SCHEMA,
        "background": None,
        "padding": 6,
        "config": {
            "aria": False,
            "font": "Liberation Sans, Arial, sans-serif",
            "view": {"stroke": colours["line"]},
            "axis": {
                "labelColor": colours["text"],
                "titleColor": colours["text"],
                "gridColor": colours["line"],
                "domainColor": colours["quiet"],
                "tickColor": colours["quiet"],
                "labelFontSize": 12,
                "titleFontSize": 13,
                "titleFontWeight": "normal",
                "labelLimit": 190,
            },
            "legend": {"labelColor": colours["text"], "titleColor": colours["text"], "labelFontSize": 12},
        },
        **body(picture, colours, narrow=narrow),
    }
    return json.dumps(spec, sort_keys=True)
