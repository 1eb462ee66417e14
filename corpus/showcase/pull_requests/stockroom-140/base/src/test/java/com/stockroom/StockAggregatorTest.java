package com.stockroom;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.stockroom.aggregate.StockAggregator;
import com.stockroom.aggregate.StockSummary;
import com.stockroom.metrics.Metrics;
import java.math.BigDecimal;
import java.util.List;
import org.junit.jupiter.api.Test;

class StockAggregatorTest {
    private final FakeWarehouses warehouses = new FakeWarehouses();
    private final StockAggregator aggregator =
            new StockAggregator(List.of("a", "b"), warehouses, new Metrics());

    @Test
    void addsUpAllWarehouses() {
        warehouses.put("a", 3, "1.5000");
        warehouses.put("b", 4, "2.2500");
        StockSummary summary = aggregator.summaryOf("mug");
        assertEquals(7, summary.quantity());
        assertEquals(new BigDecimal("13.50"), summary.value());
    }

    @Test
    void namesWarehousesThatDoNotAnswer() {
        warehouses.put("a", 3, "1.5000");
        assertEquals(List.of("b"), aggregator.summaryOf("mug").missing());
    }
}
