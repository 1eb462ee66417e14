"""The hybrid judge: claude is asked about the uncertain band only, and decides nothing else."""

from __future__ import annotations

import pytest

from crb_core.errors import InputError
from crb_worker.judge import load_judge
from crb_worker.judge.hybrid import HybridJudge, uncertain
from crb_worker.judge.loopback import AnthropicServer
from crb_worker.judge.offline import OfflineJudge
from tests.crb_worker.judge.claude_support import Desk, finding, golden, sent, showcase
from tests.crb_worker.judge.test_claude_matcher import answer, reply

GOLDEN = [
    golden("`total_price` rounds before it sums, so cents are lost."),
    golden("The cache in `find_user` is never emptied."),
]
CANDIDATES = [
    finding("total_price loses cents because it rounds each price before it sums them."),
    finding("The colour of the button is odd."),
]


def offline() -> OfflineJudge:
    return OfflineJudge([each.message for each in GOLDEN])


def hybrid(desk: Desk, server: AnthropicServer, low: float, high: float) -> HybridJudge:
    return HybridJudge(offline(), desk.judge(server), low=low, high=high)


def pairs(found: object) -> list[tuple[int, tuple[int, ...]]]:
    return [(link.candidate, link.golden) for link in found]  # type: ignore[attr-defined]


def test_sure_pairs_need_no_request(desk: Desk) -> None:
    """With an empty band it answers as the offline judge does, and no model is asked."""
    with AnthropicServer(lambda request: reply(answer(request, lambda *_: True))) as server:
        found = hybrid(desk, server, 0.5, 0.5).match("pr", CANDIDATES, GOLDEN, protocol="reviewbench")
        assert server.requests == []
    expected = offline().match("pr", CANDIDATES, GOLDEN, protocol="reviewbench")
    assert pairs(found) == pairs(expected)
    assert pairs(found)[0] == (0, (0,))


def test_all_in_the_band_is_claude_alone(desk: Desk) -> None:
    """A band from 0 to 1 asks about every pair; the answer is the model's."""
    with AnthropicServer(lambda request: reply(answer(request, lambda *_: True))) as server:
        found = hybrid(desk, server, 0.0, 1.0).match("pr", CANDIDATES, GOLDEN, protocol="reviewbench")
        assert len(server.requests) == 1
    assert pairs(found) == [(0, (0, 1)), (1, (0, 1))]


def test_the_model_sees_and_decides_only_the_band(desk: Desk) -> None:
    """Findings without an uncertain pair are not sent; a model that matches everything moves no certain pair."""
    chances = offline().probabilities(CANDIDATES, GOLDEN, protocol="reviewbench")
    lowest, *_, highest = sorted(set(chances.values()))
    inside = sorted(chances.values())[1:-1]
    low, high = (lowest + inside[0]) / 2, highest
    places, positions, band = uncertain(chances, low, high)
    assert 0 < len(band) < len(chances)
    with AnthropicServer(lambda request: reply(answer(request, lambda *_: True))) as server:
        found = hybrid(desk, server, low, high).match("pr", CANDIDATES, GOLDEN, protocol="reviewbench")
        (request,) = server.requests
    matched = {(link.candidate, position) for link in found for position in link.golden}
    assert matched == band | {pair for pair, chance in chances.items() if chance >= high}
    text = sent(request)
    for place, candidate in enumerate(CANDIDATES):
        assert (candidate.message in text) == (place in places)
    for position, other in enumerate(GOLDEN):
        assert (other.message.replace("`", "&#96;") in text or other.message in text) == (position in positions)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("hybrid:low=x", "low is 'x'"),
        ("hybrid:low=0.9,high=0.1", "band 0.9 to 0.1"),
        ("hybrid:low=nan", "band nan"),
        ("hybrid:high=2", "band"),
        ("hybrid:turn=1", "no option 'turn'"),
    ],
)
def test_bad_options(spec: str, problem: str) -> None:
    """Each is refused with the way to mend it."""
    with pytest.raises(InputError, match=problem):
        load_judge(spec, corpus=showcase())


def test_what_it_is() -> None:
    """Another band is another judge; the name says which model is asked."""
    corpus = showcase()
    plain, wide = load_judge("hybrid", corpus=corpus), load_judge("hybrid:low=0.1", corpus=corpus)
    assert (plain.name, plain.classifies) == ("hybrid", True)
    assert plain.fingerprint != wide.fingerprint
    assert load_judge("hybrid:model=claude-opus-5", corpus=corpus).name == "hybrid:claude-opus-5".replace(
        "claude-", "claude-"
    )
