package com.stockroom.reservation;

import com.stockroom.aggregate.StockAggregator;
import com.stockroom.metrics.Metrics;
import com.stockroom.source.WarehouseClient;
import com.stockroom.source.WarehouseException;

/** Promises stock to orders. */
public final class ReservationService {
    private final StockAggregator aggregator;
    private final WarehouseClient client;
    private final Metrics metrics;

    public ReservationService(StockAggregator aggregator, WarehouseClient client, Metrics metrics) {
        this.aggregator = aggregator;
        this.client = client;
        this.metrics = metrics;
    }

    /** Books the quantity out when there is enough of it. The booking service itself does not check. */
    public synchronized boolean reserve(String sku, int quantity) throws WarehouseException {
        if (aggregator.summaryOf(sku).quantity() < quantity) {
            return false;
        }
        client.book(sku, quantity);
        metrics.increment("reservations_total");
        return true;
    }
}
