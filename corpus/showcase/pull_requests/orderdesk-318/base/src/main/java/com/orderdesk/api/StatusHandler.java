package com.orderdesk.api;

import com.orderdesk.order.OrderStatus;
import com.orderdesk.order.OrderStatusService;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** POST /orders/status */
public final class StatusHandler implements HttpHandler {
    private static final int MAX_IDS = 500;

    private final OrderStatusService service;

    public StatusHandler(OrderStatusService service) {
        this.service = service;
    }

    @Override
    public void handle(HttpExchange exchange) throws IOException {
        Map<String, String> form = Forms.read(exchange);
        List<Long> ids = new ArrayList<>();
        OrderStatus status;
        try {
            for (String id : Forms.required(form, "ids").split(",")) {
                ids.add(Long.parseLong(id.trim()));
            }
            status = OrderStatus.valueOf(Forms.required(form, "status"));
        } catch (IllegalArgumentException e) {
            Responses.error(exchange, 400, "ids or status is missing or not valid");
            return;
        }
        if (ids.size() > MAX_IDS) {
            Responses.error(exchange, 400, "at most " + MAX_IDS + " ids");
            return;
        }
        int updated = service.updateAll(ids, status, form.getOrDefault("actor", "unknown"));
        Responses.json(exchange, 200, "{\"updated\": " + updated + "}");
    }
}
