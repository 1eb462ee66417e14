CREATE TABLE customer_order (
    id BIGINT PRIMARY KEY,
    customer_email VARCHAR(200) NOT NULL,
    status VARCHAR(20) NOT NULL
);

CREATE TABLE status_change (
    order_id BIGINT NOT NULL REFERENCES customer_order (id),
    from_status VARCHAR(20) NOT NULL,
    to_status VARCHAR(20) NOT NULL,
    actor VARCHAR(60) NOT NULL,
    changed_at TIMESTAMP NOT NULL
);

CREATE INDEX status_change_order ON status_change (order_id, changed_at);
