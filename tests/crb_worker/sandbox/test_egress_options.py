"""What an operator may set about egress is checked before a worker takes its first step."""

from __future__ import annotations

from ipaddress import IPv4Network

import pytest

from crb_core.errors import SettingsError
from crb_core.settings import load_settings
from crb_worker.sandbox.egress_options import own_subnets, require_free_subnets, too_few_lanes


@pytest.mark.parametrize(
    ("subnets", "network", "slots", "fits"),
    [
        ("10.9.0.0/28", None, 1, False),
        ("10.9.0.0/28", "proxies", 1, True),
        ("10.9.0.0/27", None, 1, True),
        ("10.9.0.0/27", None, 2, False),
        ("10.9.0.0/27", "proxies", 2, True),
        ("10.9.0.0/26", None, 5, True),
        ("10.9.0.0/26", None, 6, False),
        ("10.9.0.0/28", None, 0, True),
        (None, None, 512, True),
    ],
)
def test_a_worker_says_that_reviews_will_wait_for_networks(
    subnets: str | None, network: str | None, slots: int, fits: bool
) -> None:
    """One for each that runs, and for those that are prepared ahead. Fewer are slow, and no mistake."""
    settings = load_settings(egress_subnets=subnets, egress_network=network)
    problem = too_few_lanes(settings, slots)
    assert (problem is None) is fits
    assert problem is None or problem.startswith(f"{subnets} (CRB_EGRESS_SUBNETS) holds ")


@pytest.mark.parametrize(
    ("subnets", "own", "overlaps"),
    [
        ("10.9.0.0/16", "10.9.8.0/24", True),
        ("10.9.8.0/24", "10.0.0.0/8", True),
        ("10.9.8.0/24", "10.9.8.77/32", True),
        ("10.9.8.0/24", "10.9.9.0/24", False),
        ("10.9.8.0/24", "0.0.0.0/0", False),
        (None, "10.0.0.0/8", False),
    ],
)
def test_subnets_that_the_machine_reaches_something_by_are_refused(
    subnets: str | None, own: str, overlaps: bool
) -> None:
    """Else a host of the operator's would vanish behind an agent's network. The way to everywhere is no such route."""
    settings = load_settings(egress_subnets=subnets)
    if not overlaps:
        require_free_subnets(settings, [IPv4Network(own)])
        return
    with pytest.raises(SettingsError) as caught:
        require_free_subnets(settings, [IPv4Network(own)])
    assert str(caught.value) == (
        f"{subnets} overlaps {own}, which this machine has an address in or a route to (CRB_EGRESS_SUBNETS). "
        "Name a private subnet that nothing uses."
    )


def test_a_machine_knows_its_own_subnets() -> None:
    """Loopback is one everywhere; the way to everywhere is none, and neither are the engine's bridges."""
    found = own_subnets()
    assert IPv4Network("127.0.0.0/8") in found
    assert IPv4Network("0.0.0.0/0") not in found
    assert IPv4Network("172.17.0.0/16") not in found
