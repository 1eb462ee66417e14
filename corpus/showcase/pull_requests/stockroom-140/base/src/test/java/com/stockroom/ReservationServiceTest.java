package com.stockroom;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.stockroom.aggregate.StockAggregator;
import com.stockroom.metrics.Metrics;
import com.stockroom.reservation.ReservationService;
import java.util.List;
import org.junit.jupiter.api.Test;

class ReservationServiceTest {
    private final FakeWarehouses warehouses = new FakeWarehouses();
    private final Metrics metrics = new Metrics();
    private final ReservationService service =
            new ReservationService(new StockAggregator(List.of("a"), warehouses, metrics), warehouses, metrics);

    @Test
    void grantsWhatIsThere() throws Exception {
        warehouses.put("a", 5, "1.0000");
        assertTrue(service.reserve("mug", 5));
    }

    @Test
    void refusesMoreThanThereIs() throws Exception {
        warehouses.put("a", 5, "1.0000");
        assertFalse(service.reserve("mug", 6));
    }
}
