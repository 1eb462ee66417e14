package com.orderdesk.notify;

import com.orderdesk.order.Order;
import com.orderdesk.order.StatusChange;

/** Tells the customer about a change. May talk to a remote mail server. */
public interface Notifier {
    void statusChanged(Order order, StatusChange change);
}
