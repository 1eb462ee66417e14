import pytest
from pydantic import ValidationError

from parcelmeter.models import Offer, Parcel, Quote


def test_parcel():
    parcel = Parcel(weight_g=1200, postcode=" 10115 ", country="de")
    assert parcel.dict() == {
        "weight_g": 1200,
        "postcode": "10115",
        "country": "DE",
        "reference": None,
    }


@pytest.mark.parametrize("weight", [0, 40_000])
def test_weight_limits(weight):
    with pytest.raises(ValidationError):
        Parcel(weight_g=weight, postcode="10115", country="DE")


def test_offers_do_not_change():
    offer = Offer(carrier="x", offer_id="1", service="Standard", amount="4.90")
    with pytest.raises(TypeError):
        offer.amount = 1


def test_quotes_are_not_free():
    with pytest.raises(ValidationError):
        Quote(carrier="x", service="Standard", amount="0")
