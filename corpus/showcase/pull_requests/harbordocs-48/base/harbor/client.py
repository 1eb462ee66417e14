"""Talks to the harbour office."""

import json
import pathlib
import stat
import urllib.error
import urllib.request
from datetime import date

from harbor.config import Config


class OfficeError(Exception):
    """The office refused a request or did not answer."""


def read_token(config: Config) -> str:
    path = pathlib.Path(config.token_file).expanduser()
    try:
        mode = path.stat().st_mode
        token = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        raise OfficeError(f"no token in {path}, see docs/install.md#tokens") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise OfficeError(f"{path} can be read by others, see docs/install.md#tokens")
    return token


class Client:
    def __init__(self, config: Config, token: str | None = None):
        self.config = config
        self.token = token or read_token(config)

    def berths(self) -> list[dict]:
        """All berths, each with the keys id, jetty and free."""
        return self._request("GET", "/berths")

    def bookings(self) -> list[dict]:
        return self._request("GET", "/bookings")

    def book(self, berth: str, *, first_night: date, nights: int = 1) -> dict:
        body = {"berth": berth, "from": first_night.isoformat(), "nights": nights}
        return self._request("POST", "/bookings", body)

    def _request(self, method: str, path: str, body: dict | None = None):
        attempts = 1 + (self.config.retries if method == "GET" else 0)
        request = urllib.request.Request(
            self.config.url + path,
            method=method,
            data=json.dumps(body).encode("utf-8") if body is not None else None,
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        for attempt in range(1, attempts + 1):
            try:
                with urllib.request.urlopen(request, timeout=self.config.timeout) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                raise OfficeError(f"{method} {path}: status {error.code}") from error
            except OSError as error:
                if attempt == attempts:
                    raise OfficeError(f"{method} {path}: {error}") from error
