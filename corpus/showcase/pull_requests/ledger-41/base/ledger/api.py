"""The WSGI application."""

import argparse
import json
import re
from wsgiref.simple_server import make_server

from ledger import charges, db, refunds, report
from ledger.errors import LedgerError
from ledger.money import format_amount, parse_amount


def charge_json(charge):
    return {
        "id": charge["id"],
        "customer": charge["customer"],
        "currency": charge["currency"],
        "amount": format_amount(charge["amount"], charge["currency"]),
        "status": charge["status"],
    }


def create_charge(conn, request):
    body = request["body"]
    amount = parse_amount(body["amount"], body["currency"])
    key = request["headers"].get("idempotency-key")
    charge = charges.authorise(conn, body["customer"], amount, body["currency"], key=key)
    return charge_json(charge)


def capture_charge(conn, request, charge_id):
    return charge_json(charges.capture(conn, charge_id))


def refund_charge(conn, request, charge_id):
    return charge_json(refunds.refund_charge(conn, charge_id))


def show_settlement(conn, request, day, currency):
    return report.settlement(conn, day, currency)


ROUTES = [
    ("POST", re.compile(r"/charges"), create_charge),
    ("POST", re.compile(r"/charges/(ch_[0-9a-f]+)/capture"), capture_charge),
    ("POST", re.compile(r"/charges/(ch_[0-9a-f]+)/refund"), refund_charge),
    ("GET", re.compile(r"/settlement/(\d{4}-\d\d-\d\d)/([A-Z]{3})"), show_settlement),
]


def read_request(environ):
    size = int(environ.get("CONTENT_LENGTH") or 0)
    raw = environ["wsgi.input"].read(size) if size else b"{}"
    headers = {
        name[5:].replace("_", "-").lower(): value
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    return {"body": json.loads(raw), "headers": headers}


def make_app(path):
    conn = db.connect(path)
    db.migrate(conn)
    conn.close()

    def app(environ, start_response):
        conn = db.connect(path)
        try:
            status, payload = dispatch(conn, environ)
        finally:
            conn.close()
        start_response(status, [("Content-Type", "application/json")])
        return [json.dumps(payload).encode("utf-8")]

    return app


def dispatch(conn, environ):
    for method, pattern, handler in ROUTES:
        match = pattern.fullmatch(environ["PATH_INFO"])
        if match and environ["REQUEST_METHOD"] == method:
            try:
                return "200 OK", handler(conn, read_request(environ), *match.groups())
            except LedgerError as exc:
                return f"{exc.status} Error", {"error": str(exc)}
            except (KeyError, ValueError) as exc:
                return "400 Bad Request", {"error": f"malformed request: {exc}"}
    return "404 Not Found", {"error": "no such route"}


def main(argv=None):
    parser = argparse.ArgumentParser(prog="ledger")
    parser.add_argument("--db", required=True)
    parser.add_argument("--port", type=int, default=8080)
    args = parser.parse_args(argv)
    with make_server("127.0.0.1", args.port, make_app(args.db)) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
