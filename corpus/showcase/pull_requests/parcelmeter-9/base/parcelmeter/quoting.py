"""From a parcel to offers, and from an offer to a quote."""

import logging

from parcelmeter import http
from parcelmeter.carriers import northpost, quickship
from parcelmeter.models import Quote

log = logging.getLogger(__name__)

CARRIERS = {"northpost": northpost.offers, "quickship": quickship.offers}


def all_offers(parcel, settings, carriers=None):
    """The offers of all carriers that answer, cheapest first."""
    found = []
    for name, offers in (carriers or CARRIERS).items():
        try:
            found.extend(offers(parcel, settings))
        except (OSError, ValueError) as exc:
            log.info("%s left out: %s", name, exc)
    return sorted(found, key=lambda offer: offer.amount)


def quote(offer, settings):
    return Quote(
        carrier=offer.carrier,
        service=offer.service,
        amount=offer.amount,
        currency=settings.currency,
    )


def discounted(offer, percent):
    amount = (offer.amount * (100 - percent) / 100).quantize(offer.amount)
    return offer.copy(update={"amount": amount})


def notify(url, made, settings):
    """Post a quote to the shop, see docs/webhooks.md."""
    http.post(url, made.json(), settings.timeout)
