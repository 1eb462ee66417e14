"""What an operator may set about egress."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, collapse_addresses
from pathlib import Path

import psutil

from crb_core.errors import SettingsError, Where
from crb_core.settings import Settings
from crb_worker.slots import PREPARED_AHEAD

__all__ = [
    "DEFAULT_SUBNETS",
    "EGRESS_IMAGE",
    "LANE_PREFIX",
    "EgressOptions",
    "chosen_subnets",
    "lane_count",
    "lanes_in",
    "own_subnets",
    "require_free_subnets",
    "too_few_lanes",
]

EGRESS_IMAGE = "crb/egress:bookworm"
#: Private addresses that few networks use, best first.
DEFAULT_SUBNETS = (IPv4Network("10.231.0.0/16"), IPv4Network("172.30.224.0/19"), IPv4Network("192.168.208.0/20"))
#: A lane's subnet: the engine's gateway address, the proxy, and four addresses that agents take in turn.
LANE_PREFIX = 29
#: No network is larger than the largest private one: what is, is a way to everywhere, which some tunnels cut in two.
_LARGEST_NETWORK = 8
#: Interfaces of the engine's networks, and those of its containers.
_BRIDGE = re.compile(r"docker\d+|docker_gwbridge|br-[0-9a-f]{12}|veth.*")


@dataclass(frozen=True, kw_only=True)
class EgressOptions:
    """``subnets`` is cut into lanes. ``network`` is where proxies reach the hosts, by default one of their own.

    ``addresses`` are names that the proxies know without asking, ``dns`` the name servers that they ask, by default the
    engine's, and ``reachable`` private subnets in which a declared host may be.
    """

    image: str = EGRESS_IMAGE
    subnets: IPv4Network = DEFAULT_SUBNETS[0]
    network: str | None = None
    addresses: dict[str, str] = field(default_factory=dict)
    dns: tuple[str, ...] = ()
    reachable: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> EgressOptions:
        """The ``CRB_EGRESS_*`` settings."""
        return cls(
            image=settings.egress_image or EGRESS_IMAGE,
            subnets=chosen_subnets(settings),
            network=settings.egress_network,
            addresses={name: str(address) for name, address in settings.egress_addresses.items()},
            dns=tuple(str(address) for address in settings.egress_dns),
            reachable=tuple(str(subnet) for subnet in settings.egress_reachable),
        )


def chosen_subnets(settings: Settings, own: Iterable[IPv4Network] | None = None) -> IPv4Network:
    """``CRB_EGRESS_SUBNETS``, or else the first of our own that hides nothing from this machine.

    Where each would hide something, the one with most lanes beside that. ``own`` is as in ``require_free_subnets``.
    """
    if settings.egress_subnets is not None:
        return settings.egress_subnets
    routed = list(own_subnets() if own is None else own)
    free = (pool for pool in DEFAULT_SUBNETS if not any(pool.overlaps(subnet) for subnet in routed))
    return next(free, None) or max(DEFAULT_SUBNETS, key=lambda pool: lane_count(pool) - lanes_in(pool, routed))


def lane_count(pool: IPv4Network) -> int:
    """How many lanes a pool is cut into."""
    return int(2 ** (LANE_PREFIX - pool.prefixlen))


def lanes_in(pool: IPv4Network, subnets: Iterable[IPv4Network]) -> int:
    """How many lanes of a pool ``subnets`` touch."""
    # Subnets either hold each other or are apart.
    touched = {max(subnet, pool, key=lambda each: each.prefixlen) for subnet in subnets if subnet.overlaps(pool)}
    small = {subnet.supernet(new_prefix=LANE_PREFIX) for subnet in touched if subnet.prefixlen >= LANE_PREFIX}
    return sum(lane_count(subnet) for subnet in collapse_addresses({*small, *(touched - small)}))


def require_free_subnets(settings: Settings, own: Iterable[IPv4Network] | None = None) -> None:
    """SettingsError where ``CRB_EGRESS_SUBNETS`` are addresses that this machine reaches something else by.

    ``own`` are the machine's own subnets and those that it has routes to, by default as it has them now, without the
    networks of its engine: those are passed over one by one.
    """
    if settings.egress_subnets is None:
        return
    for subnet in own_subnets() if own is None else own:
        if subnet.prefixlen >= _LARGEST_NETWORK and subnet.overlaps(settings.egress_subnets):
            raise SettingsError(
                f"{settings.egress_subnets} overlaps {subnet}, which this machine has an address in or a route to",
                where=Where(file="CRB_EGRESS_SUBNETS"),
                remedy="Name a private subnet that nothing uses",
            )


def own_subnets() -> list[IPv4Network]:
    """Of this machine's interfaces and routes, without the engine's bridges and the ways to everywhere."""
    found = {
        IPv4Network(f"{address.address}/{address.netmask or 32}", strict=False)
        for interface, addresses in psutil.net_if_addrs().items()
        for address in addresses
        if address.family == socket.AF_INET and not _BRIDGE.fullmatch(interface)
    }
    # Without the file, as on macOS, the interfaces have to be enough.
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/route").read_text().splitlines()[1:]:
            interface, target, _, _, _, _, _, mask = line.split("\t")[:8]
            if not _BRIDGE.fullmatch(interface):
                found.add(IPv4Network((_little_endian(target), str(IPv4Address(_little_endian(mask)))), strict=False))
    return sorted(subnet for subnet in found if subnet.prefixlen >= _LARGEST_NETWORK)


def _little_endian(number: str) -> bytes:
    return bytes.fromhex(number)[::-1]


def lanes(settings: Settings, own: Iterable[IPv4Network] | None = None) -> int:
    """How many agents with hosts a farm's subnets have room for at once, where nobody else uses them."""
    routed = list(own_subnets() if own is None else own)
    pool = chosen_subnets(settings, routed)
    # One is the proxies' own, where no network is named for them.
    return max(0, lane_count(pool) - lanes_in(pool, routed) - (settings.egress_network is None))


def too_few_lanes(settings: Settings, review_slots: int, own: Iterable[IPv4Network] | None = None) -> str | None:
    """A sentence where reviews of agents with hosts will wait for each other, although they have slots."""
    routed = list(own_subnets() if own is None else own)
    found, wanted = lanes(settings, routed), review_slots + min(review_slots, PREPARED_AHEAD)
    if found >= wanted:
        return None
    pool = chosen_subnets(settings, routed)
    hidden = lanes_in(pool, routed)
    return (
        f"{pool} (CRB_EGRESS_SUBNETS) holds {found} network{'' if found == 1 else 's'} for agents with hosts"
        f"{f' beside {hidden} that this machine has routes into' if hidden else ''}, and {review_slots} reviews at once"
        f" use up to {wanted}: some will wait"
    )
