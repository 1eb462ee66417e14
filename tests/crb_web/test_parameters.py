"""Addresses: a parameter that a page does not know, or that is given twice, is no filter that is silently left out."""

from __future__ import annotations

import pytest

from tests.crb_web.operated import Operated


@pytest.mark.parametrize(
    "path",
    [
        "/sweeps?nope=1", "/judges?nope=1", "/judges/j-bench?swep=bench", "/trials/1?nope=1", "/sweeps/bench?nope=1",
        "/?sevrity=high", "/compare?nope=1", "/sweeps/bench/trials?nope=1", "/sweeps/bench/heat-map?nope=1",
        "/api/v1/sweeps?nope=1", "/api/v1/sweeps/bench?nope=1", "/api/v1/sweeps/bench/operations?limt=3",
        "/api/v1/pull-requests/bench/pr-1?jugde=people", "/api/v1/trials/1?nope=1", "/api/v1/leaderboard?nope=",
        "/api/v1/leaderboard?Severity=high",
    ],
)  # fmt: skip
def test_an_unknown_parameter_is_an_error(served, path):
    """On every page and endpoint, with its name."""
    answer = served.get(path)
    name = path.split("?")[1].split("=")[0]
    assert answer.status_code == 400
    assert f"There is no parameter {name}" in answer.text


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/?sweep=bench&beta=0.5&beta=2", "beta"),
        ("/api/v1/leaderboard?sweep=bench&sweep=bench", "sweep"),
        ("/api/v1/leaderboard?sweep=bench&sort=grounded_f&sort=", "sort"),
        ("/compare?sweep=bench&profile=all&profile=core", "profile"),
        ("/sweeps/bench/heat-map?offset=1&offset=2", "offset"),
        ("/api/v1/sweeps/bench/operations?limit=1&limit=2", "limit"),
        ("/api/v1/pull-requests/bench/pr-1?judge=bench&judge=bench", "judge"),
    ],
)
def test_one_value_is_one_value(served, path, name):
    """Which of two a server takes is nobody's guess."""
    answer = served.get(path)
    assert answer.status_code == 400
    assert f"The parameter {name} is given 2 times" in answer.text


def test_several_values_of_an_axis_are_a_filter(served):
    """They mean either."""
    for path in ("/?sweep=bench&severity=high&severity=low", "/compare?sweep=bench&build=agent-0&build=agent-1"):
        assert served.get(path).status_code == 200


def test_an_operation_does_not_take_its_reason_from_the_address(tmp_path):
    """What stands there would be left out without a word."""
    operated = Operated.make(tmp_path)
    answer = operated.client().post(f"{operated.api}/pause?reason=x", json={}, headers=operated.bearer("bo"))
    assert answer.status_code == 400
    assert operated.state() == "active"
    operated.store.close()
