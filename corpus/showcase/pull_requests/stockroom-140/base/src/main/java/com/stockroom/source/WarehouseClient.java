package com.stockroom.source;

public interface WarehouseClient {
    /** The level of an article in a warehouse, with a quantity of 0 for one that it does not know. */
    StockLevel level(String warehouse, String sku) throws WarehouseException;

    /** Books stock out; the levels are lower as soon as this returns. */
    void book(String sku, int quantity) throws WarehouseException;
}
