"""Parsing of what the shop's front end sends."""

from pydantic import ValidationError

from parcelmeter.models import Parcel


def read_parcel(fields):
    """(parcel, None), or (None, answer) where answer tells the form what to mark."""
    try:
        return Parcel(**fields), None
    except ValidationError as exc:
        missing = []
        invalid = {}
        for error in exc.errors():
            name = str(error["loc"][0])
            if error["type"] == "value_error.missing":
                missing.append(name)
            else:
                invalid[name] = error["msg"]
        return None, {"missing": missing, "invalid": invalid}
