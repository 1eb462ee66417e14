"""Errors that the API turns into HTTP statuses."""


class LedgerError(Exception):
    status = 400


class NotFound(LedgerError):
    status = 404


class Conflict(LedgerError):
    status = 409


class InvalidAmount(LedgerError):
    status = 422
