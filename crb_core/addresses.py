"""Which IPv4 addresses a farm may give to networks of its own."""

from __future__ import annotations

from ipaddress import IPv4Network

__all__ = ["require_private"]

#: For use inside one's own networks: RFC 1918, RFC 6598 (shared with a provider), RFC 2544 (benchmarks).
_PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.18.0.0/15")))
#: What every other address is taken for by somebody.
_TAKEN = {
    IPv4Network("0.0.0.0/8"): "unspecified addresses",
    IPv4Network("127.0.0.0/8"): "loopback addresses, which never leave a machine",
    IPv4Network("169.254.0.0/16"): "link-local addresses, where clouds keep their metadata",
    IPv4Network("192.0.0.0/24"): "addresses that are set aside for protocols",
    IPv4Network("192.0.2.0/24"): "addresses for documentation",
    IPv4Network("198.51.100.0/24"): "addresses for documentation",
    IPv4Network("203.0.113.0/24"): "addresses for documentation",
    IPv4Network("224.0.0.0/4"): "multicast addresses",
    IPv4Network("240.0.0.0/4"): "reserved addresses",
}


def require_private(subnet: IPv4Network) -> None:
    """ValueError unless every address of ``subnet`` is private."""
    if any(subnet.subnet_of(private) for private in _PRIVATE):
        return
    what = next(
        (words for taken, words in _TAKEN.items() if subnet.subnet_of(taken)),
        "public addresses, which machines elsewhere have",
    )
    raise ValueError(f"{subnet} holds {what}; name a subnet of 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16")
