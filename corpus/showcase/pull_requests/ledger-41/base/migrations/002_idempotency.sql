CREATE TABLE idempotency_keys (
    key         TEXT PRIMARY KEY,
    operation   TEXT NOT NULL,
    result_id   TEXT NOT NULL,
    created_at  TEXT NOT NULL
);
