"""Print how many berths are free on each jetty."""

from collections import Counter

from harbor import Client, load


def main() -> None:
    client = Client(load())
    free = Counter(berth["jetty"] for berth in client.berths() if berth["free"])
    for jetty, count in sorted(free.items()):
        print(f"jetty {jetty}: {count} free")


if __name__ == "__main__":
    main()
