"""``crb serve``: the pages and the HTTP API, for browsers of this machine."""

from __future__ import annotations

import errno
import socket
from typing import Annotated

import typer

from crb_core.errors import UnavailableError
from crb_core.settings import load_settings

__all__ = ["serve"]

HOST = "127.0.0.1"


def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1; 0 takes any free one.")] = 8080,
) -> None:
    """Serve the leaderboard and the read-only API on this machine until Ctrl-C. Nothing is ever written."""
    import uvicorn

    from crb_core.logs import configure_logs
    from crb_web.app import create_app

    settings = load_settings()
    configure_logs(settings.log_level)
    # Bound here, so that a port in use is a sentence and the real number of port 0 is known.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        # Before the line below: whoever reads it may connect at once.
        listener.listen(128)
    except OSError as error:
        in_use = error.errno == errno.EADDRINUSE
        raise UnavailableError(
            f"Port {port} of {HOST} cannot be used: {error.strerror}",
            remedy="Choose another with --port" if in_use else "Choose a port above 1023 with --port",
        ) from None
    with listener:
        print(f"Serving on http://{HOST}:{listener.getsockname()[1]}/ (Ctrl-C ends it)", flush=True)
        config = uvicorn.Config(
            create_app(settings),
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_keep_alive=15,
            h11_max_incomplete_event_size=32 * 1024,
        )
        uvicorn.Server(config).run(sockets=[listener])
