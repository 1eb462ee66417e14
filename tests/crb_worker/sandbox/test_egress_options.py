"""What an operator may set about egress is checked before a worker takes its first step."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from crb_core.errors import SettingsError
from crb_core.settings import load_settings
from crb_worker.sandbox.egress_options import (
    chosen_subnets,
    lanes_in,
    own_subnets,
    require_free_subnets,
    too_few_lanes,
)
from crb_worker.sandbox.egress_parts import Subnets
from tests.egress_support import require_egress_image


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


@pytest.mark.parametrize(
    ("own", "chosen"),
    [
        ((), "10.231.0.0/16"),
        (("10.0.0.0/16", "172.17.0.0/16"), "10.231.0.0/16"),
        (("10.231.7.0/24",), "172.30.224.0/19"),
        (("10.0.0.0/8",), "172.30.224.0/19"),
        (("10.0.0.0/8", "172.16.0.0/12"), "192.168.208.0/20"),
        # Nothing is free of them: the one with most room beside what they lead to.
        (("10.231.0.0/17", "172.16.0.0/12", "192.168.0.0/16"), "10.231.0.0/16"),
        (("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"), "10.231.0.0/16"),
    ],
)
def test_without_a_setting_addresses_are_chosen_that_hide_nothing(own: tuple[str, ...], chosen: str) -> None:
    """A company's network behind a tunnel, for example; what is set is taken as it is."""
    routed = [IPv4Network(each) for each in own]
    assert chosen_subnets(load_settings(), routed) == IPv4Network(chosen)
    assert chosen_subnets(load_settings(egress_subnets="10.9.0.0/24"), routed) == IPv4Network("10.9.0.0/24")


@pytest.mark.parametrize(
    ("subnets", "touched"),
    [
        ((), 0),
        (("10.9.0.0/29",), 1),
        (("10.9.0.3/32", "10.9.0.5/32"), 1),
        (("10.9.0.0/28",), 2),
        (("10.9.0.0/28", "10.9.0.8/30", "10.9.0.16/30"), 3),
        (("10.0.0.0/8", "10.9.0.0/29"), 32),
        (("192.168.0.0/16",), 0),
    ],
)
def test_lanes_are_counted_once_however_many_subnets_touch_them(subnets: tuple[str, ...], touched: int) -> None:
    """A lane has eight addresses, and one of them is enough."""
    assert lanes_in(IPv4Network("10.9.0.0/24"), [IPv4Network(each) for each in subnets]) == touched


def test_it_is_said_that_routes_leave_too_few_networks() -> None:
    """Those are passed over, so reviews wait for the others."""
    settings = load_settings(egress_subnets="10.9.0.0/27")
    assert too_few_lanes(settings, 2, [IPv4Network("10.9.0.0/28")]) == (
        "10.9.0.0/27 (CRB_EGRESS_SUBNETS) holds 1 network for agents with hosts beside 2 that this machine has routes"
        " into, and 2 reviews at once use up to 4: some will wait"
    )


def test_subnets_left_are_those_that_nobody_routes_to_and_no_network_has() -> None:
    """However the engine writes a network; what is no address of version 4 touches none."""
    subnets = Subnets(IPv4Network("10.9.0.0/26"), lambda: [IPv4Network("10.9.0.0/28")])
    assert subnets.left_by([]) == 6
    assert subnets.left_by(["10.9.0.8/29", "10.9.0.16/29", "fd00::/64", "", "10.8.0.0/16"]) == 5


#: In a network of its own, in which a route is nobody else's.
ALONE = ("unshare", "--net", "sh", "-ec")
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "ip"))), reason="a route needs root, unshare and ip"
)


@needs_root
def test_routes_are_read_from_the_kernel() -> None:
    """Also one that is cut off; a tunnel's two halves of everything are the way to everywhere."""
    routes = "ip link set lo up; for each in 10.0.0.0/8 0.0.0.0/1 128.0.0.0/1; do ip route add $each dev lo; done"
    ask = "from crb_worker.sandbox.egress_options import own_subnets; print(*own_subnets())"
    told = subprocess.run(
        [*ALONE, f'{routes}; ip route add blackhole 172.30.0.0/16; exec "$0" -c "$1"', sys.executable, ask],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split() == ["10.0.0.0/8", "127.0.0.0/8", "172.30.0.0/16"]


@needs_root
@pytest.mark.docker
@pytest.mark.parametrize(
    ("subnets", "ok", "found"),
    [
        ("10.9.0.0/24", False, "10.9.0.0/24 overlaps 10.0.0.0/8, which this machine has an address in or a route to"),
        pytest.param("", True, "agents reach what they declare, from 172.30.224.0/19", marks=pytest.mark.thorough),
    ],
)
def test_the_doctor_tells_of_subnets_that_hide_something(tmp_path: Path, subnets: str, ok: bool, found: str) -> None:
    """What is set is refused; without a setting other addresses are taken."""
    settings = {"CRB_HOME": str(tmp_path), "CRB_EGRESS_IMAGE": require_egress_image(), "CRB_RUNNER": "process"}
    route = "ip link set lo up; ip route add 10.0.0.0/8 dev lo"
    told = subprocess.run(
        [*ALONE, f'{route}; exec "$0" -m crb_cli doctor --json', sys.executable],
        env=os.environ | settings | ({"CRB_EGRESS_SUBNETS": subnets} if subnets else {}),
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    (check,) = (each for each in json.loads(told.stdout)["checks"] if each["name"] == "egress")
    assert (check["ok"], check["needed"]) == (ok, ok)
    assert found in check["found"]
