package com.orderdesk.order;

import com.orderdesk.db.Transactions;
import com.orderdesk.notify.Notifier;
import java.time.Clock;
import java.util.List;

public final class OrderStatusService {
    private final Transactions transactions;
    private final OrderRepository orders;
    private final StatusChangeRepository history;
    private final Notifier notifier;
    private final Clock clock;

    public OrderStatusService(
            Transactions transactions,
            OrderRepository orders,
            StatusChangeRepository history,
            Notifier notifier,
            Clock clock) {
        this.transactions = transactions;
        this.orders = orders;
        this.history = history;
        this.notifier = notifier;
        this.clock = clock;
    }

    public void update(long orderId, OrderStatus target, String actor) {
        record Done(Order order, StatusChange change) {
        }
        Done done = transactions.run(connection -> {
            Order order = orders.find(connection, orderId)
                    .orElseThrow(() -> new OrderException("no order " + orderId));
            if (!order.status().canMoveTo(target)) {
                throw new OrderException("order " + orderId + " cannot become " + target);
            }
            StatusChange change = new StatusChange(orderId, order.status(), target, actor, clock.instant());
            orders.setStatus(connection, List.of(orderId), target);
            history.append(connection, change);
            return new Done(order, change);
        });
        notifier.statusChanged(done.order(), done.change());
    }

    /** Returns the number of orders that were changed. */
    public int updateAll(List<Long> orderIds, OrderStatus target, String actor) {
        return transactions.run(connection -> orders.setStatus(connection, orderIds, target));
    }
}
