#!/usr/bin/env python3
"""Print the registry tag for a commit: the first twelve hex digits."""

import re
import sys


def release_tag(commit: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{40}", commit):
        raise ValueError(f"not a commit: {commit!r}")
    return commit[:12]


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: release_tag.py COMMIT", file=sys.stderr)
        return 2
    print(release_tag(sys.argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
