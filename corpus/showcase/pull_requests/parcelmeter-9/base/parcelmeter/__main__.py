import argparse

from parcelmeter.models import Parcel
from parcelmeter.quoting import all_offers
from parcelmeter.settings import Settings


def main():
    parser = argparse.ArgumentParser(prog="parcelmeter")
    commands = parser.add_subparsers(dest="command", required=True)
    quote = commands.add_parser("quote")
    quote.add_argument("--weight", type=int, required=True)
    quote.add_argument("--to", required=True)
    quote.add_argument("--country", default="DE")
    args = parser.parse_args()
    parcel = Parcel(weight_g=args.weight, postcode=args.to, country=args.country)
    for offer in all_offers(parcel, Settings()):
        print(f"{offer.amount:>8} {offer.carrier} {offer.service}")


main()
