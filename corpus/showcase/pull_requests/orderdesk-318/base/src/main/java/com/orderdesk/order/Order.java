package com.orderdesk.order;

public record Order(long id, String customerEmail, OrderStatus status) {
}
