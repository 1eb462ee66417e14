package com.stockroom.source;

import java.io.IOException;
import java.math.BigDecimal;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** Talks to the warehouses' own servers; answers are lines of "quantity;unitCost". */
public final class HttpWarehouseClient implements WarehouseClient {
    private static final String BOOKING = "http://booking.internal:9000";

    private final HttpClient http = HttpClient.newHttpClient();
    private final Duration timeout;

    public HttpWarehouseClient(Duration timeout) {
        this.timeout = timeout;
    }

    @Override
    public StockLevel level(String warehouse, String sku) throws WarehouseException {
        String[] fields = call(warehouse + "/level?sku=" + encode(sku)).strip().split(";");
        return new StockLevel(warehouse, Integer.parseInt(fields[0]), new BigDecimal(fields[1]));
    }

    @Override
    public void book(String sku, int quantity) throws WarehouseException {
        call(BOOKING + "/book?sku=" + encode(sku) + "&quantity=" + quantity);
    }

    private String call(String url) throws WarehouseException {
        HttpRequest request = HttpRequest.newBuilder(URI.create(url)).timeout(timeout).build();
        try {
            return http.send(request, BodyHandlers.ofString()).body();
        } catch (IOException e) {
            throw new WarehouseException(url + " does not answer", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new WarehouseException(url + " was interrupted", e);
        }
    }

    private static String encode(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8);
    }
}
