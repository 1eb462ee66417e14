package com.stockroom.web;

import com.stockroom.metrics.Metrics;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** GET /metrics */
public final class MetricsHandler implements HttpHandler {
    private final Metrics metrics;

    public MetricsHandler(Metrics metrics) {
        this.metrics = metrics;
    }

    @Override
    public void handle(HttpExchange exchange) throws IOException {
        byte[] bytes = metrics.render().getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(200, bytes.length);
        exchange.getResponseBody().write(bytes);
        exchange.close();
    }
}
