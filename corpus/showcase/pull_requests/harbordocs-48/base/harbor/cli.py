"""Command line."""

import argparse
import sys

from harbor import options, report
from harbor.client import Client, OfficeError
from harbor.config import load

BERTH_COLUMNS = ["id", "jetty", "free"]
BOOKING_COLUMNS = ["berth", "from", "nights"]


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="harbor")
    commands = parser.add_subparsers(dest="command", required=True)
    shared = [options.common()]

    listing = commands.add_parser("list", parents=shared)
    listing.add_argument("--free", action="store_true")
    listing.add_argument("--jetty")

    book = commands.add_parser("book", parents=shared)
    book.add_argument("berth")
    book.add_argument("--from", dest="first_night", type=options.day, required=True)
    book.add_argument("--nights", type=int, default=1)

    export = commands.add_parser("export", parents=shared)
    export.add_argument("--format", choices=["csv", "json"], default="csv")
    return parser


def run(args: argparse.Namespace, client: Client) -> str:
    if args.command == "list":
        rows = client.berths()
        if args.free:
            rows = [row for row in rows if row["free"]]
        if args.jetty:
            rows = [row for row in rows if row["jetty"] == args.jetty]
        return report.as_json(rows) if args.json else report.table(rows, BERTH_COLUMNS)
    if args.command == "book":
        booking = client.book(args.berth, first_night=args.first_night, nights=args.nights)
        return report.as_json([booking]) if args.json else f"booked {booking['berth']}"
    rows = client.bookings()
    if args.json or args.format == "json":
        return report.as_json(rows)
    return report.as_csv(rows, BOOKING_COLUMNS)


def main(argv: list[str] | None = None) -> int:
    args = build_parser().parse_args(argv)
    try:
        client = Client(load(args.config), token=args.token)
        print(run(args, client))
    except OfficeError as error:
        print(f"harbor: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
