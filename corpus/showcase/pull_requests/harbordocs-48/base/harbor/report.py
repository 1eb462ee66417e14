"""Output of berths and bookings."""

import csv
import io
import json


def table(rows: list[dict], columns: list[str]) -> str:
    lines = ["  ".join(f"{name:<8}" for name in columns).rstrip()]
    for row in rows:
        lines.append("  ".join(f"{row[name]!s:<8}" for name in columns).rstrip())
    return "\n".join(lines)


def as_csv(rows: list[dict], columns: list[str]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().rstrip("\n")


def as_json(rows: list[dict]) -> str:
    return json.dumps(rows, indent=2, ensure_ascii=False)
