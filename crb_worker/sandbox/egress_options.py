"""What an operator may set about egress."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import IPv4Network

from crb_core.errors import SettingsError, Where
from crb_core.settings import Settings
from crb_worker.slots import PREPARED_AHEAD

__all__ = ["DEFAULT_SUBNETS", "EGRESS_IMAGE", "LANE_PREFIX", "EgressOptions", "require_lanes"]

EGRESS_IMAGE = "crb/egress:bookworm"
#: Private addresses that few networks use.
DEFAULT_SUBNETS = IPv4Network("10.231.0.0/16")
#: A lane's subnet: the engine's gateway address, the proxy, and four addresses that agents take in turn.
LANE_PREFIX = 29


@dataclass(frozen=True, kw_only=True)
class EgressOptions:
    """``subnets`` is cut into lanes. ``network`` is where proxies reach the hosts, by default one of their own.

    ``addresses`` are names that the proxies know without asking, ``dns`` the name servers that they ask, by default the
    engine's, and ``reachable`` private subnets in which a declared host may be.
    """

    image: str = EGRESS_IMAGE
    subnets: IPv4Network = DEFAULT_SUBNETS
    network: str | None = None
    addresses: dict[str, str] = field(default_factory=dict)
    dns: tuple[str, ...] = ()
    reachable: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Settings) -> EgressOptions:
        """The ``CRB_EGRESS_*`` settings."""
        return cls(
            image=settings.egress_image or EGRESS_IMAGE,
            subnets=settings.egress_subnets or DEFAULT_SUBNETS,
            network=settings.egress_network,
            addresses={name: str(address) for name, address in settings.egress_addresses.items()},
            dns=tuple(str(address) for address in settings.egress_dns),
            reachable=tuple(str(subnet) for subnet in settings.egress_reachable),
        )


def require_lanes(settings: Settings, review_slots: int) -> None:
    """SettingsError where the subnets hold fewer lanes than this worker may use at once: attempts would fail for it."""
    if settings.egress_subnets is None or not review_slots:
        return
    # One is the proxies' own, where no network is named for them.
    lanes = 2 ** (LANE_PREFIX - settings.egress_subnets.prefixlen) - (settings.egress_network is None)
    wanted = review_slots + min(review_slots, PREPARED_AHEAD)
    if lanes < wanted:
        raise SettingsError(
            f"{settings.egress_subnets} holds {lanes} networks for agents, and {review_slots} reviews at once need "
            f"{wanted}",
            where=Where(file="CRB_EGRESS_SUBNETS"),
            remedy="Name a larger subnet, or fewer CRB_REVIEW_SLOTS",
        )
