"""Configuration from mailroom.toml."""

import dataclasses
import tomllib


@dataclasses.dataclass(frozen=True)
class Config:
    queue_path: str
    directory_path: str
    journal_dir: str
    relay: str
    lease_seconds: float = 30
    workers: int = 4
    idle_seconds: float = 0.5


def load(path):
    with open(path, "rb") as handle:
        raw = tomllib.load(handle)
    return Config(
        queue_path=raw["queue"]["path"],
        directory_path=raw["directory"]["path"],
        journal_dir=raw["outbox"]["journal_dir"],
        relay=raw["outbox"]["relay"],
        lease_seconds=raw["queue"].get("lease_seconds", 30),
        workers=raw["consumer"].get("workers", 4),
        idle_seconds=raw["consumer"].get("idle_seconds", 0.5),
    )
