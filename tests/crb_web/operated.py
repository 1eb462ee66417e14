"""A server that operates over a planned sweep, and clients of it."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.testclient import TestClient

from crb_core.errors import CrbError
from crb_core.settings import Settings
from crb_core.store import Store, open_store
from crb_core.store.access_tokens import create_token
from crb_core.store.retries import Compared
from crb_web.access import AccessRules
from crb_web.app import create_app
from tests.crb_core.store.planned import Planned, plan

ORIGIN = "http://127.0.0.1"
OPERATE = AccessRules(operate=True)


@dataclass
class Operated:
    """The sweep ``sweep-of-minimal`` of three trials, served; tokens bo (operator) and rea (reader)."""

    home: Path
    store: Store
    planned: Planned
    tokens: dict[str, str]
    rules: AccessRules = OPERATE
    app: Any = None
    unchanged: list[Any] = field(default_factory=list)
    #: By (sweep id, build id) why an agent is another build now.
    refused: dict[tuple[str, str], CrbError] = field(default_factory=dict)

    @classmethod
    def make(cls, home: Path, rules: AccessRules = OPERATE, **options: Any) -> Operated:
        store = open_store(f"sqlite:///{home / 'crb.sqlite'}")
        planned = plan(store, pull_requests=3)
        with store.write() as connection:
            tokens = {
                name: create_token(connection, name, role)[1] for name, role in (("bo", "operator"), ("rea", "reader"))
            }
        made = cls(home, store, planned, tokens, rules)

        def check(found: Any) -> Compared:
            made.unchanged.append(found)
            return Compared(refused=made.refused)

        made.app = create_app(Settings(home=home), rules=rules, check_unchanged=check, **options)
        return made

    @property
    def api(self) -> str:
        return f"/api/v1/sweeps/{self.planned.sweep_id}"

    @property
    def page(self) -> str:
        return f"/sweeps/{self.planned.sweep_id}"

    def client(self, **options: Any) -> TestClient:
        return TestClient(self.app, base_url=ORIGIN, follow_redirects=False, **options)

    def bearer(self, name: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.tokens[name]}"}

    def signed_in(self, name: str) -> TestClient:
        """A browser in which somebody signed in."""
        client = self.client()
        answer = sign_in(client, self.tokens[name])
        assert answer.status_code == 303, answer.text
        return client

    def csrf(self, client: TestClient) -> str:
        found = re.search(r'name="csrf" value="([^"]+)"', client.get(self.page).text)
        assert found is not None
        return found[1]

    def send(self, client: TestClient, path: str, *, origin: str | None = ORIGIN, **fields: str) -> Any:
        """A form of the sweep's page."""
        return client.post(self.page + path, data=fields, headers={} if origin is None else {"origin": origin})

    def state(self) -> str:
        from crb_core.store.sweep_limits import read_limits

        with self.store.read() as connection:
            return read_limits(connection, self.planned.sweep_id).state


def sign_in(client: TestClient, token: str, **more: str) -> Any:
    shown = client.get("/sign-in")
    secret = re.search(r'name="csrf" value="([^"]+)"', shown.text)
    assert secret is not None
    return client.post(
        "/sign-in", data={"token": token, "csrf": secret[1], "next": "/sweeps"} | more, headers={"origin": ORIGIN}
    )


@contextmanager
def running(app: Any, **options: Any) -> Iterator[int]:
    """A real server in a thread; its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", ws="none", **options)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        thread.join()
        listener.close()
