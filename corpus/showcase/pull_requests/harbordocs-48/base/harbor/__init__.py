"""Book berths from the command line."""

from harbor.client import Client, OfficeError
from harbor.config import Config, load

__all__ = ["Client", "Config", "OfficeError", "load"]
