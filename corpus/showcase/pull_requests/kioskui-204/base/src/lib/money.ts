import type { CartLine } from "../types";

const formatter = new Intl.NumberFormat("en-IE", { style: "currency", currency: "EUR" });

export function formatCents(cents: number): string {
  return formatter.format(cents / 100);
}

export function totalCents(lines: CartLine[]): number {
  return lines.reduce((sum, line) => sum + line.item.priceCents * line.quantity, 0);
}
