import unittest
from datetime import date

from harbor.cli import build_parser, run


class FakeClient:
    def berths(self):
        return [
            {"id": "A1", "jetty": "A", "free": True},
            {"id": "B12", "jetty": "B", "free": False},
        ]

    def book(self, berth, *, first_night, nights=1):
        return {"berth": berth, "from": first_night.isoformat(), "nights": nights}


class CliTest(unittest.TestCase):
    def run_cli(self, *argv):
        return run(build_parser().parse_args(argv), FakeClient())

    def test_list_free(self):
        self.assertEqual(self.run_cli("list", "--free").splitlines()[1:], ["A1        A         True"])

    def test_book(self):
        args = build_parser().parse_args(["book", "A1", "--from", "2024-06-01"])
        self.assertEqual(args.first_night, date(2024, 6, 1))
        self.assertEqual(self.run_cli("book", "A1", "--from", "2024-06-01"), "booked A1")


if __name__ == "__main__":
    unittest.main()
