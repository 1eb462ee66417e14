package com.orderdesk.order;

import com.orderdesk.db.Transactions;
import java.util.List;

public final class OrderTimeline {
    private final Transactions transactions;
    private final StatusChangeRepository history;

    public OrderTimeline(Transactions transactions, StatusChangeRepository history) {
        this.transactions = transactions;
        this.history = history;
    }

    public List<StatusChange> of(long orderId) {
        return transactions.run(connection -> history.ofOrder(connection, orderId));
    }
}
