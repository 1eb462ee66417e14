import argparse
import logging
import threading

from mailroom import config, consumer


def main():
    parser = argparse.ArgumentParser(prog="mailroom")
    parser.add_argument("--config", default="mailroom.toml")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    stop = threading.Event()
    workers = consumer.start(config.load(args.config), stop)
    try:
        for worker in workers:
            worker.join()
    except KeyboardInterrupt:
        stop.set()


main()
