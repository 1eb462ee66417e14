package com.orderdesk.order;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.orderdesk.db.Transactions;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.Statement;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import org.h2.jdbcx.JdbcDataSource;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class OrderStatusServiceTest {
    private static final Instant NOW = Instant.parse("2024-05-02T08:15:00Z");

    private final List<StatusChange> mails = new ArrayList<>();
    private OrderStatusService service;
    private OrderTimeline timeline;

    @BeforeEach
    void setUp() throws Exception {
        JdbcDataSource dataSource = new JdbcDataSource();
        dataSource.setURL("jdbc:h2:mem:desk" + System.nanoTime() + ";DB_CLOSE_DELAY=-1");
        try (Connection connection = dataSource.getConnection(); Statement statement = connection.createStatement()) {
            statement.execute(Files.readString(Path.of("db/schema.sql")));
            statement.execute("INSERT INTO customer_order VALUES"
                    + " (1, 'a@example.org', 'PICKING'), (2, 'b@example.org', 'PICKING'), (3, 'c@example.org', 'NEW')");
        }
        Transactions transactions = new Transactions(dataSource);
        StatusChangeRepository history = new StatusChangeRepository();
        service = new OrderStatusService(
                transactions,
                new OrderRepository(),
                history,
                (order, change) -> mails.add(change),
                Clock.fixed(NOW, ZoneOffset.UTC));
        timeline = new OrderTimeline(transactions, history);
    }

    @Test
    void writesHistoryAndTellsTheCustomer() {
        service.update(1, OrderStatus.SHIPPED, "mia");
        StatusChange expected = new StatusChange(1, OrderStatus.PICKING, OrderStatus.SHIPPED, "mia", NOW);
        assertEquals(List.of(expected), timeline.of(1));
        assertEquals(List.of(expected), mails);
    }

    @Test
    void refusesStatusThatCannotFollow() {
        assertThrows(OrderException.class, () -> service.update(3, OrderStatus.SHIPPED, "mia"));
        assertEquals(List.of(), timeline.of(3));
    }

    @Test
    void countsOrdersOfBulkUpdate() {
        assertEquals(2, service.updateAll(List.of(1L, 2L), OrderStatus.SHIPPED, "mia"));
    }
}
