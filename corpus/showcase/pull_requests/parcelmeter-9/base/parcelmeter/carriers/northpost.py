"""Northpost."""

from decimal import Decimal
from typing import List, Optional

from pydantic import BaseModel, parse_obj_as

from parcelmeter import http
from parcelmeter.models import Offer

URL = "https://api.northpost.example/v3/prices"


class Price(BaseModel):
    id: str
    product: str
    price: Decimal
    days: Optional[int]


def offers(parcel, settings):
    params = {"g": parcel.weight_g, "to": parcel.postcode, "country": parcel.country}
    raw = http.get_json(URL, params, settings.northpost_token, settings.timeout)
    return [
        Offer(
            carrier="northpost",
            offer_id=price.id,
            service=price.product,
            amount=price.price,
            days=price.days,
        )
        for price in parse_obj_as(List[Price], raw)
    ]
