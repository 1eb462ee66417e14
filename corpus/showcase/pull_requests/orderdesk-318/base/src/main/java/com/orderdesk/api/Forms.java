package com.orderdesk.api;

import com.sun.net.httpserver.HttpExchange;
import java.io.IOException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

final class Forms {
    private Forms() {
    }

    static Map<String, String> read(HttpExchange exchange) throws IOException {
        String body = new String(exchange.getRequestBody().readNBytes(64 * 1024), StandardCharsets.UTF_8);
        Map<String, String> form = new HashMap<>();
        for (String pair : body.split("&")) {
            int equals = pair.indexOf('=');
            if (equals > 0) {
                form.put(decode(pair.substring(0, equals)), decode(pair.substring(equals + 1)));
            }
        }
        return form;
    }

    static String required(Map<String, String> form, String name) {
        String value = form.get(name);
        if (value == null || value.isBlank()) {
            throw new IllegalArgumentException(name + " is missing");
        }
        return value;
    }

    private static String decode(String text) {
        return URLDecoder.decode(text, StandardCharsets.UTF_8);
    }
}
