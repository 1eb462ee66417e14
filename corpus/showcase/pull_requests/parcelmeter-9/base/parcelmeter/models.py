"""What the parts of the program hand to each other."""

import datetime
import uuid
from decimal import Decimal
from typing import Optional

from pydantic import BaseModel, Field, root_validator, validator


class Parcel(BaseModel):
    weight_g: int = Field(gt=0, le=31_500)
    postcode: str
    country: str
    reference: Optional[str]

    class Config:
        anystr_strip_whitespace = True

    @validator("country")
    def upper(cls, value):
        if len(value) != 2:
            raise ValueError("two letters expected")
        return value.upper()


class Offer(BaseModel):
    carrier: str
    offer_id: str
    service: str
    amount: Decimal
    days: Optional[int]

    class Config:
        allow_mutation = False


class Quote(BaseModel):
    quote_id: str = Field(default_factory=lambda: str(uuid.uuid4()))
    carrier: str
    service: str
    amount: Decimal
    currency: str = "EUR"
    expires_at: Optional[datetime.datetime] = None

    @validator("expires_at", always=True)
    def one_hour(cls, value):
        if value is None:
            now = datetime.datetime.now(datetime.timezone.utc)
            value = now.replace(microsecond=0) + datetime.timedelta(hours=1)
        return value

    @root_validator(skip_on_failure=True)
    def not_free(cls, values):
        if values["amount"] <= 0:
            raise ValueError("a quote needs an amount")
        return values
