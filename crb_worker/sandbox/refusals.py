"""What the egress proxy refused an attempt, read from the proxy's log."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

__all__ = [
    "LOG_REASONS",
    "PAUSING_REASONS",
    "Refusals",
    "RefusedHost",
    "pausing_refusals",
    "read_refusals",
    "refusal_sentence",
]

#: Why a request was refused: the proxy's words (docker/egress/squid.conf) and those that we tell apart from them.
LOG_REASONS = {
    "not_declared": "not declared in agent.toml",
    "address": "an address, where only the names of declared hosts are passed on",
    "user_info": "a URL with a user's name in it is not passed on",
    "not_https": "only HTTPS is passed on",
    "port": "only port 443 is passed on",
    "unresolved": "its name does not resolve",
    "inside": "its name stands for an address inside the farm's network",
    "server_name": "named inside a tunnel to another host",
    "not_tls": "its tunnel carried something else than TLS with the host's name",
    "too_many": "more than 256 connections at once",
}
#: The reasons for which a build is paused: another trial would be refused as well.
PAUSING_REASONS = frozenset(LOG_REASONS) - {"unresolved", "too_many"}

#: URLs that ask for a host.
_WEB = re.compile(r"(?:https?|ftp)://", re.IGNORECASE)
#: An IPv4 address in any notation that a resolver takes, or an IPv6 address.
_ADDRESS = re.compile(r"\[?[0-9A-Fa-f.]*:[0-9A-Fa-f:.%]*\]?|(?:(?:0[xX][0-9A-Fa-f]*|[0-9]+)\.?){1,4}")

#: Different refusals that are kept of one attempt; more are counted only.
_KEPT = 50
#: Longest host name that is kept, in characters.
_HOST_CHARACTERS = 255
#: Refusals that a sentence names.
_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class RefusedHost:
    """A host that an attempt asked the proxy for in vain. ``why`` is a key of LOG_REASONS, ``count`` how often."""

    host: str
    port: int | None
    why: str
    count: int

    def document(self) -> dict[str, Any]:
        """As the attempt row keeps it."""
        return {"host": self.host, "port": self.port, "why": self.why, "count": self.count}

    @property
    def shown(self) -> str:
        where = self.host if self.port is None else f"{self.host}:{self.port}"
        return f"{where} ({LOG_REASONS[self.why]})"


@dataclass(frozen=True, kw_only=True)
class Refusals:
    """The refusals of one attempt, in the order of their first. ``complete`` is False where the log was overrun."""

    hosts: tuple[RefusedHost, ...]
    more: int = 0
    complete: bool = True


def read_refusals(
    lines: Iterable[str], client: str, *, declared: Collection[str] | None = None, complete: bool = True
) -> Refusals:
    """The refusals of the agent at the address ``client``, which may reach the ``declared`` hosts (None: not known).

    Lines are ``time address why target server-name``. What comes from the agent is percent-encoded in them, so that no
    request can look like two lines or fields.
    """
    counts: Counter[tuple[str, int | None, str]] = Counter()
    more = 0
    for line in lines:
        fields = line.split(" ")
        if len(fields) != 5 or fields[1] != client or fields[2] not in LOG_REASONS:
            continue
        _, _, logged, target, server_name = fields
        host, port = _target(target)
        why = _why(logged, target, host, declared)
        if why == "server_name":
            if server_name in {"", "-"}:
                why = "not_tls"
            else:
                host = unquote(server_name)
        key = (_printable(host), port, why)
        if key not in counts and len(counts) >= _KEPT:
            more += 1
        else:
            counts[key] += 1
    hosts = tuple(
        RefusedHost(host=host, port=port, why=why, count=count) for (host, port, why), count in counts.items()
    )
    return Refusals(hosts=hosts, more=more, complete=complete)


def pausing_refusals(hosts: Sequence[RefusedHost]) -> str:
    """The refusals that would meet every trial of the build, as text; empty where there are none."""
    return _named([host for host in hosts if host.why in PAUSING_REASONS])


def refusal_sentence(refusals: Refusals) -> str:
    """What a verdict says of them, with a blank before it; empty where there are none."""
    named = _named(refusals.hosts)
    if refusals.more:
        named += " and many more"
    text = f" The egress proxy refused {named}." if named else ""
    if not refusals.complete:
        text += " The proxy's log was overrun, so it may have refused more."
    return text


def _named(hosts: Sequence[RefusedHost]) -> str:
    named = [host.shown for host in hosts[:_NAMED]]
    if len(hosts) > _NAMED:
        named.append(f"{len(hosts) - _NAMED} more")
    return ", ".join(named)


def _why(logged: str, target: str, host: str, declared: Collection[str] | None) -> str:
    """The reason that helps: what would still be wrong if everything else were mended.

    The proxy looks at the kind of a request first, and takes an address and the name of a user for parts of a host.
    """
    if logged != "not_declared" and not (logged == "not_https" and _WEB.match(target)):
        return logged
    if _ADDRESS.fullmatch(host):
        return "address"
    if declared is None:
        return logged
    if host.rstrip(".").lower() not in declared:
        return "not_declared"
    return "user_info" if "@" in _authority(target) else logged


def _authority(target: str) -> str:
    _, separator, rest = target.partition("://")
    return re.split(r"[/?#]", rest if separator else target, maxsplit=1)[0]


def _target(target: str) -> tuple[str, int | None]:
    """Host and port of a CONNECT target or a URL, as far as it has them."""
    scheme, separator, _ = target.partition("://")
    authority = _authority(target).rpartition("@")[2]
    host, colon, port = authority.rpartition(":")
    if colon and port.isascii() and port.isdigit() and len(port) <= 5:
        return unquote(host), int(port)
    standard = {"http": 80, "https": 443}.get(scheme) if separator else None
    return unquote(authority), standard


def _printable(host: str) -> str:
    shown = "".join(character if character.isprintable() else "?" for character in host) or "?"
    return shown if len(shown) <= _HOST_CHARACTERS else shown[: _HOST_CHARACTERS - 1] + "…"
