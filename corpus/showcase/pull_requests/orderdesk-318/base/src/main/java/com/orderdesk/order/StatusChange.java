package com.orderdesk.order;

import java.time.Instant;

public record StatusChange(
        long orderId, OrderStatus from, OrderStatus to, String actor, Instant changedAt) {
}
