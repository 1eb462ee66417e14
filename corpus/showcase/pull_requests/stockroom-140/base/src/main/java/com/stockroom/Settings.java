package com.stockroom;

import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Properties;

public record Settings(int port, List<String> warehouses, Duration warehouseTimeout) {
    public static Settings read(Path file) throws IOException {
        Properties properties = new Properties();
        try (Reader reader = Files.newBufferedReader(file)) {
            properties.load(reader);
        }
        return new Settings(
                Integer.parseInt(properties.getProperty("port", "8090")),
                List.of(properties.getProperty("warehouses").split(",")),
                Duration.ofSeconds(Long.parseLong(properties.getProperty("warehouse.timeout.seconds", "10"))));
    }
}
