package com.stockroom.source;

import java.math.BigDecimal;

/** What one warehouse has of an article. The unit cost has four decimals and differs between warehouses. */
public record StockLevel(String warehouse, int quantity, BigDecimal unitCost) {
}
