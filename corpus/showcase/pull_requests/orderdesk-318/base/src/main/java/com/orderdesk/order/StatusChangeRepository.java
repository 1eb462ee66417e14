package com.orderdesk.order;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;

public final class StatusChangeRepository {
    private static final String INSERT =
            "INSERT INTO status_change (order_id, from_status, to_status, actor, changed_at) VALUES (?, ?, ?, ?, ?)";
    private static final String SELECT =
            "SELECT order_id, from_status, to_status, actor, changed_at FROM status_change"
                    + " WHERE order_id = ? ORDER BY changed_at";

    public void append(Connection connection, StatusChange change) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement(INSERT)) {
            statement.setLong(1, change.orderId());
            statement.setString(2, change.from().name());
            statement.setString(3, change.to().name());
            statement.setString(4, change.actor());
            statement.setObject(5, LocalDateTime.ofInstant(change.changedAt(), ZoneOffset.UTC));
            statement.executeUpdate();
        }
    }

    public List<StatusChange> ofOrder(Connection connection, long orderId) throws SQLException {
        List<StatusChange> changes = new ArrayList<>();
        try (PreparedStatement statement = connection.prepareStatement(SELECT)) {
            statement.setLong(1, orderId);
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    changes.add(new StatusChange(
                            rows.getLong("order_id"),
                            OrderStatus.valueOf(rows.getString("from_status")),
                            OrderStatus.valueOf(rows.getString("to_status")),
                            rows.getString("actor"),
                            rows.getObject("changed_at", LocalDateTime.class).toInstant(ZoneOffset.UTC)));
                }
            }
        }
        return changes;
    }
}
