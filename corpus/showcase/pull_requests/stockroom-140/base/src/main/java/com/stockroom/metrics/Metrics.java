package com.stockroom.metrics;

import java.util.Map;
import java.util.TreeMap;

/** Counters and observations of this process. Used from the thread of the HTTP server. */
public final class Metrics {
    private final Map<String, Double> values = new TreeMap<>();

    public void increment(String name) {
        values.merge(name, 1.0, Double::sum);
    }

    public void observe(String name, double value) {
        values.merge(name + "_count", 1.0, Double::sum);
        values.merge(name + "_sum", value, Double::sum);
        values.merge(name + "_max", value, Math::max);
    }

    public String render() {
        StringBuilder text = new StringBuilder();
        values.forEach((name, value) -> text.append(name).append(' ').append(value).append('\n'));
        return text.toString();
    }
}
