"""Options that several commands share."""

import argparse
from datetime import date


def common() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--config", default="~/.harbor.ini", help="settings file")
    parser.add_argument("--token", help="token, for automated tests only")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def day(text: str) -> date:
    return date.fromisoformat(text)
