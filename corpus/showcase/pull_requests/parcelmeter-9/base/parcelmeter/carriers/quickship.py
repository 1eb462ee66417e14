"""Quickship."""

from decimal import Decimal
from typing import List, Optional

from pydantic import BaseModel

from parcelmeter import http
from parcelmeter.models import Offer

URL = "https://quickship.example/offers"


class Item(BaseModel):
    ref: str
    name: str
    net: Decimal
    surcharge: Optional[Decimal]


class Answer(BaseModel):
    offers: List[Item]


def offers(parcel, settings):
    params = {"weight": parcel.weight_g, "zip": parcel.postcode, "cc": parcel.country}
    raw = http.get_json(URL, params, settings.quickship_token, settings.timeout)
    return [
        Offer(
            carrier="quickship",
            offer_id=item.ref,
            service=item.name,
            amount=item.net + (item.surcharge or 0),
        )
        for item in Answer(**raw).offers
    ]
