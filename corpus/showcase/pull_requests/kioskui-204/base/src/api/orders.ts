import type { CartLine, MenuItem, OrderReceipt } from "../types";

class ApiError extends Error {
  constructor(
    readonly status: number,
    path: string,
  ) {
    super(`${path} answered ${status}`);
    this.name = "ApiError";
  }
}

async function requestJson<T>(path: string, init: RequestInit = {}): Promise<T> {
  const response = await fetch(path, {
    ...init,
    headers: { "content-type": "application/json", ...init.headers },
  });
  if (!response.ok) {
    throw new ApiError(response.status, path);
  }
  return (await response.json()) as T;
}

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
