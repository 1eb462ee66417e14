"""How each picture is drawn: the bodies of Vega-Lite specifications, made of plain values only."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from crb_core.pictures import Picture, Record
from crb_web.show import plain

__all__ = ["Spec", "body"]

Spec: TypeAlias = dict[str, Any]

#: Values of F whose curves are drawn.
CURVES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_STEPS = 60
#: Smallest part of an axis from 0 to 1 that is drawn.
_SMALLEST = 0.3
#: Single pull requests are drawn as points up to this many.
POINTS = 600
#: Characters of an agent's name beside a bar.
NAME = 24
#: Widths below this are for narrow screens.
NARROW = 400
#: From which ratio of the largest to the smallest value an axis is logarithmic.
WIDE_RANGE = 20


def body(picture: Picture, colours: Mapping[str, str], *, narrow: bool) -> Spec:
    """The body of a picture's specification; of an empty one, why it is empty."""
    return (_BODIES[picture.name] if picture.records else _nothing)(picture, colours, 290 if narrow else 560)


def _data(records: Sequence[Record]) -> Spec:
    return {"values": [{name: value for name, value in each.items() if name != "agent"} for each in records]}


def _quantity(name: str, title: str | None, **more: Any) -> Spec:
    return {"field": name, "type": "quantitative", "title": title, **more}


def _unit(title: str, name: str, window: tuple[float, float] = (0.0, 1.0)) -> Spec:
    axis = {"tickCount": 5, "format": ".1f"}
    return _quantity(name, title, scale={"domain": list(window), "zero": False, "nice": False}, axis=axis)


def _points(x: Spec, y: Spec, data: Spec, colours: Mapping[str, str]) -> list[Spec]:
    """A numbered disc for each record: the number is the row's place in the table."""
    return [
        {
            "data": data,
            "mark": {"type": "circle", "size": 260, "color": colours["mark"], "opacity": 1},
            "encoding": {"x": x, "y": y},
        },
        {
            "data": data,
            "mark": {"type": "text", "fontSize": 11, "fontWeight": "bold", "color": colours["mark_text"]},
            "encoding": {"x": x, "y": y, "text": {"field": "place", "type": "nominal"}},
        },
    ]


def _span(axis: Literal["x", "y"], x: Spec, y: Spec, ends: tuple[str, str], data: Spec, colour: str) -> Spec:
    """A line for the interval along one axis."""
    low, high = ends
    encoding = {"x": x, "y": y}
    encoding[axis] = {**encoding[axis], "field": low}
    encoding[f"{axis}2"] = {"field": high}
    return {
        "data": data,
        "transform": [{"filter": f"isValid(datum.{low}) && isValid(datum.{high})"}],
        "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.6, "color": colour},
        "encoding": encoding,
    }


def _precision_recall(picture: Picture, colours: Mapping[str, str], width: int) -> Spec:
    across, up = (_window(picture.records, name) for name in ("recall", "precision"))
    x, y = _unit("recall", "recall", across), _unit("precision", "precision", up)
    data = _data(picture.records)
    found = [curve for value in CURVES if (curve := _curve(value, float(picture.about["beta"]), across, up))]
    curves, ends = {"values": [point for curve in found for point in curve]}, {"values": [curve[-1] for curve in found]}
    return {
        "width": width,
        "height": round(width * 0.75),
        "layer": [
            {
                "data": curves,
                "mark": {"type": "line", "strokeDash": [4, 4], "strokeWidth": 1, "color": colours["quiet"]},
                "encoding": {
                    "x": x,
                    "y": y,
                    "detail": {"field": "name", "type": "nominal"},
                    "order": {"field": "place", "type": "quantitative"},
                },
            },
            {
                "data": ends,
                "mark": {"type": "text", "align": "right", "dx": -3, "dy": -9, "color": colours["quiet"]},
                "encoding": {"x": x, "y": y, "text": {"field": "name", "type": "nominal"}},
            },
            _span("x", x, y, ("recall_low", "recall_high"), data, colours["mark"]),
            _span("y", x, y, ("precision_low", "precision_high"), data, colours["mark"]),
            *_points(x, y, data, colours),
        ],
    }


def _window(records: Sequence[Record], name: str) -> tuple[float, float]:
    """The part of 0 to 1, in tenths, that holds every value with its interval; at least ``_SMALLEST`` wide."""
    values = [each[key] for each in records for key in (name, f"{name}_low", f"{name}_high") if each[key] is not None]
    low, high = math.floor(min(values, default=0) * 10) / 10, math.ceil(max(values, default=1) * 10) / 10
    if high - low >= 1 - _SMALLEST:
        return 0.0, 1.0
    while high - low < _SMALLEST:
        low, high = max(0.0, low - 0.1), min(1.0, high + 0.1)
    return round(low, 1), round(high, 1)


def _curve(value: float, beta: float, across: tuple[float, float], up: tuple[float, float]) -> list[Record]:
    """Where F is ``value`` inside a window: precision by recall, from F = (1 + b²) p r / (b² p + r)."""
    weight = beta * beta

    def recall_at(precision: float) -> float:
        below = (1 + weight) * precision - value
        return weight * value * precision / below if below > 0 else math.inf

    # Precision falls along the curve: it comes in at the top or from the left, and leaves to the right or below.
    first, last = max(across[0], recall_at(up[1])), min(across[1], recall_at(up[0]))
    found = []
    for place in range(_STEPS + 1):
        recall = first + (last - first) * place / _STEPS
        below = (1 + weight) * recall - weight * value
        if first < last and below > 0:
            precision = min(up[1], max(up[0], value * recall / below))
            found.append({"name": f"F {value:.1f}", "place": place, "recall": recall, "precision": precision})
    return found


def _against(name: str, title: str, spread: str | None) -> Callable[[Picture, Mapping[str, str], int], Spec]:
    """Quality against something that has a unit."""

    def body(picture: Picture, colours: Mapping[str, str], width: int) -> Spec:
        records = [dict(each) for each in picture.records]
        for each in records:
            deviation = None if spread is None else each[spread]
            each["left"] = None if deviation is None else max(each[name] - deviation, each[name] / 100)
            each["right"] = None if deviation is None else each[name] + deviation
        values = [each[name] for each in records]
        is_wide = bool(values) and min(values) > 0 and max(values) / min(values) > WIDE_RANGE
        scale = {"type": "log"} if is_wide else {"zero": True}
        x = _quantity(name, f"{title}{', logarithmic' if is_wide else ''}", scale=scale, axis={"tickCount": 6})
        y = _unit("F", "f")
        data = _data(records)
        return {
            "width": width,
            "height": round(width * 0.6),
            "layer": [
                _span("y", x, y, ("f_low", "f_high"), data, colours["mark"]),
                _span("x", x, y, ("left", "right"), data, colours["mark"]),
                *_points(x, y, data, colours),
            ],
        }

    return body


def _named(records: Sequence[Record]) -> tuple[list[Record], Spec]:
    """Records with the label of their row, and the axis that holds the labels in the order of the table."""
    named = []
    for each in records:
        name = plain(each["agent"]).replace("\n", " ").replace("\t", " ")
        label = f"{name[: NAME - 1]}…" if len(name) > NAME else name
        named.append({**each, "label": f"{each['place']} {label}"})
    order = list(dict.fromkeys(each["label"] for each in named))
    return named, {"field": "label", "type": "nominal", "title": None, "sort": order, "axis": {"labelPadding": 6}}


def _strata(picture: Picture, colours: Mapping[str, str], width: int) -> Spec:
    """Rows by strata; the other way round, with the rows' places, where there is little width."""
    is_narrow = width < NARROW
    named, agents = _named(picture.records)
    records = [{**each, "name": plain(f"{each['axis']} {each['stratum']}")} for each in named]
    names = list(dict.fromkeys(each["name"] for each in records))
    strata: Spec = {"field": "name", "type": "nominal", "title": None, "sort": names}
    if is_narrow:
        places = list(dict.fromkeys(each["place"] for each in records))
        x: Spec = {"field": "place", "type": "nominal", "title": None, "sort": places}
        x["axis"] = {"labelAngle": 0, "orient": "top"}
        y = {**strata, "axis": {"labelLimit": 150}}
        step = max(20, min(42, (width - 130) // max(len(places), 1)))
    else:
        x, y = {**strata, "axis": {"labelAngle": -45, "orient": "top", "labelLimit": 170}}, agents
        step = max(22, min(42, (width + 60) // max(len(names), 1)))
    known = "isValid(datum.f)"
    return {
        "width": {"step": step},
        "height": {"step": 26},
        "data": _data(records),
        "encoding": {"x": x, "y": y},
        "layer": [
            {"mark": {"type": "rect", "color": colours["empty"]}},
            {
                "transform": [{"filter": known}],
                "mark": {"type": "rect"},
                "encoding": {
                    "color": {
                        "field": "f",
                        "type": "quantitative",
                        "scale": {"domain": [0, 1], "range": [colours["empty"], colours["second"]]},
                        "legend": None,
                    }
                },
            },
            {
                "transform": [{"filter": known}],
                "mark": {"type": "text", "fontSize": 10 if step < 30 else 12, "color": colours["text"]},
                "encoding": {"text": {"field": "f", "type": "quantitative", "format": ".2f"}},
            },
            {
                "transform": [{"filter": f"!{known}"}],
                "mark": {"type": "text", "color": colours["quiet"], "text": "–"},
            },
        ],
    }


def _distribution(picture: Picture, colours: Mapping[str, str], width: int) -> Spec:
    records, y = _named(picture.records)
    boxes = [{name: value for name, value in each.items() if name != "values"} for each in records]
    single = [{"label": each["label"], "f": value} for each in records for value in each["values"]]
    x = _unit("F of a pull request", "minimum")
    layer: list[Spec] = [
        {"mark": {"type": "rule", "color": colours["quiet"]}, "encoding": {"x": x, "x2": {"field": "maximum"}}},
        {
            "mark": {"type": "bar", "color": colours["second"], "height": 14},
            "encoding": {"x": {**x, "field": "p25"}, "x2": {"field": "p75"}},
        },
        {
            "mark": {"type": "tick", "color": colours["text"], "thickness": 3, "size": 16},
            "encoding": {"x": {**x, "field": "p50"}},
        },
    ]
    if len(single) <= POINTS:
        layer.append(
            {
                "data": {"values": single},
                "mark": {"type": "circle", "size": 22, "opacity": 0.55, "color": colours["mark"]},
                "encoding": {"x": {**x, "field": "f"}},
            }
        )
    return {
        "width": width - 130 if width < NARROW else width - 100,
        "height": {"step": 28},
        "data": _data(boxes),
        "encoding": {"y": y},
        "layer": layer,
    }


def _union(picture: Picture, colours: Mapping[str, str], width: int) -> Spec:
    named, y = _named(picture.records)
    parts = ("covered by no other agent", "covered by others too")
    records = [
        {"label": each["label"], "part": part, "order": place, "count": count}
        for each in named
        for place, (part, count) in enumerate(zip(parts, (each["only"], each["covered"] - each["only"]), strict=True))
    ]
    return {
        "width": width - 130 if width < NARROW else width - 100,
        "height": {"step": 26},
        "data": {"values": records},
        "mark": {"type": "bar"},
        "encoding": {
            "y": y,
            "x": _quantity("count", "golden true positives", axis={"tickMinStep": 1, "tickCount": 6}),
            "order": {"field": "order", "type": "quantitative"},
            "color": {
                "field": "part",
                "type": "nominal",
                "title": None,
                "scale": {"domain": list(parts), "range": [colours["mark"], colours["second"]]},
                "legend": {"orient": "bottom", "direction": "vertical", "labelLimit": 260},
            },
        },
    }


def _nothing(picture: Picture, colours: Mapping[str, str], width: int) -> Spec:
    """Why there is nothing to draw: the reasons of the rows that are absent."""
    reasons = list(dict.fromkeys(plain(each["reason"]) for each in picture.absent)) or ["there is no row"]
    lines = ["No row has what this picture needs:"]
    for reason in reasons[:3]:
        lines += textwrap.wrap(f"{reason}.", width // 7)
    if len(reasons) > 3:
        lines.append(f"and {len(reasons) - 3} other reasons, in the table.")
    return {
        "width": width,
        "height": 22 * len(lines),
        "view": {"stroke": None},
        "data": {"values": [{"line": place, "text": line} for place, line in enumerate(lines)]},
        "mark": {"type": "text", "align": "left", "color": colours["text"], "fontSize": 13},
        "encoding": {
            "x": {"value": 0},
            "y": {"field": "line", "type": "ordinal", "axis": None},
            "text": {"field": "text", "type": "nominal"},
        },
    }


_BODIES: Mapping[str, Callable[[Picture, Mapping[str, str], int], Spec]] = {
    "precision-recall": _precision_recall,
    "quality-duration": _against("seconds", "seconds a review", "seconds_std"),
    "quality-cost": _against("usd", "US dollars a review", None),
    "strata": _strata,
    "distribution": _distribution,
    "union": _union,
}
