"""``crb serve``: the pages and the HTTP API. Read-only and for this machine, unless told otherwise."""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crb_core.errors import InputError, UnavailableError, UsageError
from crb_core.settings import load_settings

if TYPE_CHECKING:
    from crb_core.settings import Settings

__all__ = ["serve"]

HOST = "127.0.0.1"
#: Connections at once; each may hold a thread's worth of work or a live page.
MAX_CONNECTIONS = 512
#: Requests a second of one address, and at once, where others than this machine's people ask.
EXPOSED_PER_SECOND, EXPOSED_BURST = 20.0, 200

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")


def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes any free one.")] = 8080,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = HOST,
    name: Annotated[
        list[str] | None, typer.Option(help="Host name under which browsers ask, beside the address (repeatable).")
    ] = None,
    operate: Annotated[
        bool, typer.Option("--operate", help="Let operators' tokens pause, resume, cancel, retry and set limits.")
    ] = False,
    behind_proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS", help="Answer only this reverse proxy, which does TLS and names its clients (repeatable)."
        ),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate chain (PEM), for TLS of its own.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key (PEM).")] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Let everybody read who reaches it, where tokens would be needed.")
    ] = False,
) -> None:
    """Serve the pages and the API until Ctrl-C: read-only, on this machine.

    Beyond this machine it asks for TLS (--tls-cert, or --behind-proxy) and, unless --public, for a token to read
    (`crb token create`).
    """
    from crb_core.logs import configure_logs

    settings = load_settings()
    address = _address(host)
    proxies = [_network(each) for each in behind_proxy or ()]
    names = [_checked_name(each) for each in name or ()]
    is_tls = _check_tls(tls_cert, tls_key) or bool(proxies)
    is_exposed = not address.is_loopback or bool(proxies) or bool(names)
    if is_exposed and not is_tls:
        raise UsageError(
            "Beyond this machine, tokens and findings would cross the network in the clear",
            remedy="Give --tls-cert and --tls-key, or --behind-proxy ADDRESS of a reverse proxy that does TLS",
        )
    if address.is_unspecified and not names:
        raise UsageError(f"{host} is no name that a browser asks for", remedy="Give --name with the server's host name")
    if public and not is_exposed:
        raise UsageError("On this machine reading needs no token, so there is nothing to make --public")
    configure_logs(settings.log_level)
    app = _application(
        settings,
        names={*names, _host_name(address)} if is_exposed else set(),
        proxies=proxies,
        operate=operate,
        read_with_token=is_exposed and not public,
        is_tls=is_tls,
        is_exposed=is_exposed,
    )
    _run(app, address, port, tls_cert, tls_key)


def _application(
    settings: Settings,
    *,
    names: set[str],
    proxies: list[Any],
    operate: bool,
    read_with_token: bool,
    is_tls: bool,
    is_exposed: bool,
) -> Any:
    # Read once, when numpy is imported. Answers are made side by side: threads of their own for each product of
    # matrices would only wait for each other, and use twice the time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from crb_cli.unchanged import compare_with_now
    from crb_web.access import AccessRules
    from crb_web.app import LOOPBACK, create_app
    from crb_web.limits import LIMITS, LimitRules

    limits = LimitRules(per_second=EXPOSED_PER_SECOND, burst=EXPOSED_BURST) if is_exposed else LIMITS
    return create_app(
        settings,
        hosts=names or LOOPBACK,
        rules=AccessRules(operate=operate, read_with_token=read_with_token, is_tls=is_tls),
        limits=limits,
        proxies=proxies,
        check_unchanged=lambda planned: compare_with_now(planned, settings),
    )


def _run(app: Any, address: Any, port: int, tls_cert: Path | None, tls_key: Path | None) -> None:
    import uvicorn

    from crb_web.http_protocol import ImpatientProtocol

    # Bound here, so that a port in use is a sentence and the real number of port 0 is known.
    listener = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((str(address), port))
        # Before the line below: whoever reads it may connect at once.
        listener.listen(128)
    except OSError as error:
        listener.close()
        in_use = error.errno == errno.EADDRINUSE
        raise UnavailableError(
            f"Port {port} of {address} cannot be used: {error.strerror}",
            remedy="Choose another with --port" if in_use else "Choose a port above 1023, or another --host",
        ) from None
    scheme = "http" if tls_cert is None else "https"
    with listener:
        print(f"Serving on {scheme}://{_host_name(address)}:{listener.getsockname()[1]}/ (Ctrl-C ends it)", flush=True)
        config = uvicorn.Config(
            app,
            http=ImpatientProtocol,
            log_level="warning",
            access_log=False,
            server_header=False,
            # The guard decides whose word is taken.
            proxy_headers=False,
            ws="none",
            limit_concurrency=MAX_CONNECTIONS,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=5,
            h11_max_incomplete_event_size=32 * 1024,
            ssl_certfile=None if tls_cert is None else str(tls_cert),
            ssl_keyfile=None if tls_key is None else str(tls_key),
        )
        try:
            config.load()
        except OSError as error:
            # ssl.SSLError is one.
            raise InputError(
                f"The certificate and key cannot be used: {error.strerror or error}",
                remedy="Both are PEM files, and the key is the certificate's",
            ) from None
        uvicorn.Server(config).run(sockets=[listener])


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    if host == "localhost":
        return ipaddress.ip_address(HOST)
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        raise UsageError(f"{host!r} is no address", remedy="Give one of this machine's, such as 127.0.0.1") from None


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is no address of a reverse proxy", remedy="Give an address, such as 192.0.2.7, or a network"
        ) from None


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no host name", remedy="Give it without scheme and port, such as crb.example.org")
    return name.lower()


def _check_tls(cert: Path | None, key: Path | None) -> bool:
    """Whether the server does TLS itself. UsageError where it lacks one of both, InputError where a file is missing."""
    if (cert is None) != (key is None):
        raise UsageError("TLS needs both --tls-cert and --tls-key")
    for each in (cert, key):
        if each is not None and not each.is_file():
            raise InputError(f"There is no file {each}")
    return cert is not None


def _host_name(address: Any) -> str:
    return f"[{address}]" if address.version == 6 else str(address)
