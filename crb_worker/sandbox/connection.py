"""The SDK's client of the engine, without what makes each of its calls dear."""

from __future__ import annotations

from typing import Any

import docker
import docker.utils
from docker.transport import UnixHTTPAdapter

__all__ = ["connect"]


class _SharedPool(UnixHTTPAdapter):
    """One pool of connections for all calls. The SDK's own has one a URL, so that every call connects anew."""

    def get_connection(self, url: bytes | str, proxies: Any = None) -> Any:  # noqa: ARG002
        return super().get_connection("http+docker://localhost", proxies)


def connect(*, timeout: int, connections: int) -> docker.APIClient:
    """A client of the engine that ``DOCKER_HOST`` names, else of the local one. Raises what the SDK raises.

    ``timeout`` is in seconds for one answer, ``connections`` how many of them are kept open.
    """
    api = docker.APIClient(
        version="auto", timeout=timeout, max_pool_size=connections, num_pools=4, **docker.utils.kwargs_from_env()
    )
    for prefix, adapter in list(api.adapters.items()):
        if isinstance(adapter, UnixHTTPAdapter):
            # A socket has no proxy and no password either: looking for them costs as much as all else of a call.
            api.trust_env = False
            api.mount(prefix, _SharedPool(f"http+unix://{adapter.socket_path}", timeout, 1, connections))
            adapter.close()
    return api
