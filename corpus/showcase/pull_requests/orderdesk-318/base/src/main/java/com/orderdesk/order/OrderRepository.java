package com.orderdesk.order;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

public final class OrderRepository {
    public Optional<Order> find(Connection connection, long id) throws SQLException {
        return Optional.ofNullable(findAll(connection, List.of(id)).get(id));
    }

    /** The orders with the given ids, by id. Unknown ids are left out. */
    public Map<Long, Order> findAll(Connection connection, List<Long> ids) throws SQLException {
        String marks = String.join(",", Collections.nCopies(ids.size(), "?"));
        String sql = "SELECT id, customer_email, status FROM customer_order WHERE id IN (" + marks + ") FOR UPDATE";
        Map<Long, Order> found = new LinkedHashMap<>();
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            for (int i = 0; i < ids.size(); i++) {
                statement.setLong(i + 1, ids.get(i));
            }
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    Order order = new Order(
                            rows.getLong("id"),
                            rows.getString("customer_email"),
                            OrderStatus.valueOf(rows.getString("status")));
                    found.put(order.id(), order);
                }
            }
        }
        return found;
    }

    public int setStatus(Connection connection, List<Long> ids, OrderStatus status) throws SQLException {
        String marks = String.join(",", Collections.nCopies(ids.size(), "?"));
        String sql = "UPDATE customer_order SET status = ? WHERE id IN (" + marks + ")";
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            statement.setString(1, status.name());
            for (int i = 0; i < ids.size(); i++) {
                statement.setLong(i + 2, ids.get(i));
            }
            return statement.executeUpdate();
        }
    }
}
