package com.stockroom;

import com.stockroom.aggregate.StockAggregator;
import com.stockroom.metrics.Metrics;
import com.stockroom.source.HttpWarehouseClient;
import com.stockroom.web.SummaryHandler;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;

public final class Main {
    private Main() {
    }

    public static void main(String[] args) throws IOException {
        Settings settings = Settings.read(Path.of(args[0]));
        Metrics metrics = new Metrics();
        StockAggregator aggregator = new StockAggregator(
                settings.warehouses(), new HttpWarehouseClient(settings.warehouseTimeout()), metrics);
        HttpServer server = HttpServer.create(new InetSocketAddress(settings.port()), 0);
        server.createContext("/summary/", new SummaryHandler(aggregator));
        server.createContext("/metrics", exchange -> {
            byte[] text = metrics.render().getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders(200, text.length);
            exchange.getResponseBody().write(text);
            exchange.close();
        });
        server.start();
    }
}
