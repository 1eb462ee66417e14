package com.stockroom.web;

import com.stockroom.aggregate.StockAggregator;
import com.stockroom.aggregate.StockSummary;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** GET /summary/&lt;sku&gt; */
public final class SummaryHandler implements HttpHandler {
    private final StockAggregator aggregator;

    public SummaryHandler(StockAggregator aggregator) {
        this.aggregator = aggregator;
    }

    @Override
    public void handle(HttpExchange exchange) throws IOException {
        String sku = exchange.getRequestURI().getPath().substring("/summary/".length());
        StockSummary summary = aggregator.summaryOf(sku);
        String json = "{\"quantity\": " + summary.quantity()
                + ", \"value\": \"" + summary.value() + "\""
                + ", \"missing\": " + summary.missing().size() + "}";
        byte[] bytes = json.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        exchange.sendResponseHeaders(200, bytes.length);
        exchange.getResponseBody().write(bytes);
        exchange.close();
    }
}
