package com.stockroom.source;

public class WarehouseException extends Exception {
    public WarehouseException(String message, Throwable cause) {
        super(message, cause);
    }
}
