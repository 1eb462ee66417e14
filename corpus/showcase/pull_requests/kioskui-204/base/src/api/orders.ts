import type { CartLine, MenuItem, OrderReceipt } from "../types";
import { requestJson } from "./client";

export function loadMenu(signal: AbortSignal): Promise<MenuItem[]> {
  return requestJson<MenuItem[]>("/api/menu", { signal });
}

/** Creates the order and starts the card terminal. Each call is a new order. */
export function submitOrder(lines: CartLine[], note: string): Promise<OrderReceipt> {
  const body = {
    note: note.trim(),
    lines: lines.map((line) => ({ itemId: line.item.id, quantity: line.quantity })),
  };
  return requestJson<OrderReceipt>("/api/orders", { method: "POST", body: JSON.stringify(body) });
}
