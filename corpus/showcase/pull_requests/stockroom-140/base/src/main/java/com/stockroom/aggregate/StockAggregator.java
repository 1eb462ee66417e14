package com.stockroom.aggregate;

import com.stockroom.metrics.Metrics;
import com.stockroom.source.StockLevel;
import com.stockroom.source.WarehouseClient;
import com.stockroom.source.WarehouseException;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.ArrayList;
import java.util.List;

public final class StockAggregator {
    private final List<String> warehouses;
    private final WarehouseClient client;
    private final Metrics metrics;

    public StockAggregator(List<String> warehouses, WarehouseClient client, Metrics metrics) {
        this.warehouses = List.copyOf(warehouses);
        this.client = client;
        this.metrics = metrics;
    }

    public StockSummary summaryOf(String sku) {
        List<String> missing = new ArrayList<>();
        int quantity = 0;
        BigDecimal value = BigDecimal.ZERO;
        for (String warehouse : warehouses) {
            long started = System.nanoTime();
            try {
                StockLevel level = client.level(warehouse, sku);
                quantity += level.quantity();
                value = value.add(level.unitCost().multiply(BigDecimal.valueOf(level.quantity())));
            } catch (WarehouseException e) {
                metrics.increment("stock_fetch_failures_total");
                missing.add(warehouse);
            } finally {
                metrics.observe("stock_fetch_seconds", (System.nanoTime() - started) / 1e9);
            }
        }
        return new StockSummary(sku, quantity, value.setScale(2, RoundingMode.HALF_EVEN), missing);
    }
}
