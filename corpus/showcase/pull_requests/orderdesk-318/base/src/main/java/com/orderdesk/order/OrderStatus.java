package com.orderdesk.order;

import java.util.Set;

public enum OrderStatus {
    NEW,
    PICKING,
    ON_HOLD,
    SHIPPED,
    CANCELLED;

    /** An order can be put on hold and taken back into picking any number of times. */
    public boolean canMoveTo(OrderStatus target) {
        Set<OrderStatus> allowed = switch (this) {
            case NEW -> Set.of(PICKING, ON_HOLD, CANCELLED);
            case PICKING -> Set.of(ON_HOLD, SHIPPED, CANCELLED);
            case ON_HOLD -> Set.of(PICKING, CANCELLED);
            case SHIPPED, CANCELLED -> Set.of();
        };
        return allowed.contains(target);
    }
}
