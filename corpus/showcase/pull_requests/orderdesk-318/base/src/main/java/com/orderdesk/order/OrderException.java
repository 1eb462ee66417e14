package com.orderdesk.order;

/** The order does not exist or may not take the requested status. */
public class OrderException extends RuntimeException {
    public OrderException(String message) {
        super(message);
    }
}
