from decimal import Decimal

import pytest

from parcelmeter import http, quoting
from parcelmeter.carriers import northpost
from parcelmeter.models import Offer, Parcel
from parcelmeter.settings import Settings

ANSWER = [
    {"id": 7781, "product": "Standard", "price": "4.90", "days": 3},
    {"id": 7790, "product": "Express", "price": "9.90"},
]


@pytest.fixture
def parcel():
    return Parcel(weight_g=1200, postcode="10115", country="DE")


def test_northpost(monkeypatch, parcel):
    monkeypatch.setattr(http, "get_json", lambda *args: ANSWER)
    found = northpost.offers(parcel, Settings())
    assert [(offer.offer_id, offer.days) for offer in found] == [("7781", 3), ("7790", None)]


def test_cheapest_first(parcel):
    def one(parcel, settings):
        return [Offer(carrier="one", offer_id="1", service="s", amount="7")]

    def two(parcel, settings):
        return [Offer(carrier="two", offer_id="2", service="s", amount="5.5")]

    def down(parcel, settings):
        raise OSError("no route")

    found = quoting.all_offers(parcel, Settings(), {"one": one, "down": down, "two": two})
    assert [offer.carrier for offer in found] == ["two", "one"]


def test_discount():
    offer = Offer(carrier="one", offer_id="1", service="s", amount="10.00")
    assert quoting.discounted(offer, 15).amount == Decimal("8.50")


def test_notify(monkeypatch):
    sent = []
    monkeypatch.setattr(http, "post", lambda url, body, timeout: sent.append(body))
    offer = Offer(carrier="one", offer_id="1", service="s", amount="10.00")
    quoting.notify("https://shop.example", quoting.quote(offer, Settings()), Settings())
    assert '"carrier"' in sent[0]
