"""Settings of the program."""

import configparser
import pathlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    url: str = "https://office.harbor.example"
    timeout: float = 10.0
    retries: int = 2
    token_file: str = "~/.harbor-token"


def load(path: str = "~/.harbor.ini") -> Config:
    parser = configparser.ConfigParser()
    parser.read(pathlib.Path(path).expanduser(), encoding="utf-8")
    if not parser.has_section("harbor"):
        return Config()
    section = parser["harbor"]
    return Config(
        url=section.get("url", Config.url).rstrip("/"),
        timeout=section.getfloat("timeout", Config.timeout),
        retries=section.getint("retries", Config.retries),
        token_file=section.get("token_file", Config.token_file),
    )
