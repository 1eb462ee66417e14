package com.stockroom;

import com.stockroom.source.StockLevel;
import com.stockroom.source.WarehouseClient;
import com.stockroom.source.WarehouseException;
import java.math.BigDecimal;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/** Warehouses in memory. Stock is booked out of "a". */
final class FakeWarehouses implements WarehouseClient {
    final Map<String, StockLevel> levels = new ConcurrentHashMap<>();
    final AtomicInteger calls = new AtomicInteger();

    void put(String warehouse, int quantity, String unitCost) {
        levels.put(warehouse, new StockLevel(warehouse, quantity, new BigDecimal(unitCost)));
    }

    @Override
    public StockLevel level(String warehouse, String sku) throws WarehouseException {
        calls.incrementAndGet();
        StockLevel level = levels.get(warehouse);
        if (level == null) {
            throw new WarehouseException(warehouse + " is down", null);
        }
        return level;
    }

    @Override
    public void book(String sku, int quantity) {
        levels.computeIfPresent("a", (name, level) ->
                new StockLevel(name, level.quantity() - quantity, level.unitCost()));
    }
}
