package com.stockroom.aggregate;

import java.math.BigDecimal;
import java.util.List;

/** The stock of an article over all warehouses; {@code missing} lists those that did not answer. */
public record StockSummary(String sku, int quantity, BigDecimal value, List<String> missing) {
    public StockSummary {
        missing = List.copyOf(missing);
    }
}
