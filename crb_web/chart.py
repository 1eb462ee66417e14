"""Precision against recall with curves of equal F, as an SVG that needs no script and no inline style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from crb_web.show import plain

__all__ = ["precision_recall"]

WIDTH, HEIGHT = 460, 400
LEFT, TOP, RIGHT, BOTTOM = 52, 14, 14, 48
#: Values of F whose curves are drawn.
CURVES = (0.2, 0.4, 0.6, 0.8)
_STEPS = 60


def precision_recall(rows: Sequence[Mapping[str, Any]], *, precision: str, recall: str, beta: float) -> Markup | None:
    """Every row that has both metrics as a numbered point with its 95% intervals; None where no row has both.

    A point's number is the row's place in the table.
    """
    points = [
        (place, row, row["macro"][precision], row["macro"][recall])
        for place, row in enumerate(rows, start=1)
        if row["macro"][precision]["mean"] is not None and row["macro"][recall]["mean"] is not None
    ]
    if not points:
        return None
    parts = [*_axes(), *(_curve(value, beta) for value in CURVES)]
    # Points last, so that no line crosses a number.
    parts += [_intervals(up, across) for _, _, up, across in points]
    for place, row, up, across in points:
        parts.append(_point(place, str(row["agent"]), up, across))
    told = "; ".join(
        f"{place} {row['agent']}: precision {up['mean']:.2f}, recall {across['mean']:.2f}"
        for place, row, up, across in points
    )
    return Markup(
        '<svg class="chart" viewBox="0 0 {w} {h}" role="img" aria-labelledby="chart-title chart-text">'
        '<title id="chart-title">Precision against recall</title><desc id="chart-text">{told}</desc>{parts}</svg>'
    ).format(w=WIDTH, h=HEIGHT, told=plain(told), parts=Markup("").join(parts))


def _x(recall: float) -> float:
    return round(LEFT + recall * (WIDTH - LEFT - RIGHT), 1)


def _y(precision: float) -> float:
    return round(TOP + (1 - precision) * (HEIGHT - TOP - BOTTOM), 1)


def _axes() -> list[Markup]:
    parts = [
        Markup('<rect class="frame" x="{}" y="{}" width="{}" height="{}"/>').format(
            _x(0), _y(1), round(_x(1) - _x(0), 1), round(_y(0) - _y(1), 1)
        )
    ]
    for tick in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
        parts.append(
            Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{:.1f}</text>').format(
                _x(tick), _y(0) + 17, tick
            )
        )
        parts.append(
            Markup('<text class="tick" x="{}" y="{}" text-anchor="end">{:.1f}</text>').format(
                _x(0) - 6, _y(tick) + 4, tick
            )
        )
    middle = _y(0.5)
    parts.append(
        Markup('<text class="axis" x="{}" y="{}" text-anchor="middle">recall</text>').format(_x(0.5), HEIGHT - 8)
    )
    parts.append(
        Markup(
            '<text class="axis" x="14" y="{0}" text-anchor="middle" transform="rotate(-90 14 {0})">precision</text>'
        ).format(middle)
    )
    return parts


def _curve(value: float, beta: float) -> Markup:
    """Where F is ``value``: precision as a function of recall, from F = (1 + b²) p r / (b² p + r)."""
    weight = beta * beta
    found = []
    for step in range(_STEPS + 1):
        recall = step / _STEPS
        below = (1 + weight) * recall - weight * value
        if below <= 0:
            continue
        precision = value * recall / below
        if precision <= 1:
            found.append((recall, precision))
    # The curve starts where precision is 1.
    first = weight * value / (1 + weight - value)
    if first <= 1:
        found.insert(0, (first, 1.0))
    path = " ".join(f"{_x(recall)},{_y(precision)}" for recall, precision in found)
    end = found[-1]
    return Markup(
        '<polyline class="iso" points="{}"/><text class="iso-name" x="{}" y="{}" text-anchor="end">F {:.1f}</text>'
    ).format(path, _x(end[0]) - 4, _y(end[1]) - 4, value)


def _intervals(up: Mapping[str, Any], across: Mapping[str, Any]) -> Markup:
    x, y = _x(across["mean"]), _y(up["mean"])
    parts = []
    for metric, is_up in ((up, True), (across, False)):
        interval = metric.get("interval")
        if interval is None or interval["low"] is None:
            continue
        low, high = interval["low"], interval["high"]
        ends = (x, _y(low), x, _y(high)) if is_up else (_x(low), y, _x(high), y)
        parts.append(Markup('<line class="interval" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(*ends))
    return Markup("").join(parts)


def _point(place: int, agent: str, up: Mapping[str, Any], across: Mapping[str, Any]) -> Markup:
    x, y = _x(across["mean"]), _y(up["mean"])
    return Markup(
        '<g><circle class="point" cx="{}" cy="{}" r="9"><title>{}: precision {:.3f}, recall {:.3f}</title></circle>'
        '<text class="point-name" x="{}" y="{}" text-anchor="middle">{}</text></g>'
    ).format(x, y, plain(agent), up["mean"], across["mean"], x, y + 4, place)
