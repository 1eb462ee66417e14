CREATE TABLE charges (
    id          TEXT PRIMARY KEY,
    customer    TEXT NOT NULL,
    currency    TEXT NOT NULL,
    amount      INTEGER NOT NULL CHECK (amount > 0),
    status      TEXT NOT NULL DEFAULT 'authorised',
    created_at  TEXT NOT NULL
);

CREATE TABLE entries (
    id          INTEGER PRIMARY KEY,
    charge_id   TEXT NOT NULL REFERENCES charges (id),
    account     TEXT NOT NULL,
    amount      INTEGER NOT NULL,
    posted_at   TEXT NOT NULL
);

CREATE INDEX entries_charge ON entries (charge_id);
