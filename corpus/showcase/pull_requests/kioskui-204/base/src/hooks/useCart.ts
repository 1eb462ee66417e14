import { useCallback, useState } from "react";
import type { CartLine, MenuItem } from "../types";

export function useCart() {
  const [lines, setLines] = useState<CartLine[]>([]);

  const add = useCallback((item: MenuItem) => {
    setLines((current) => {
      const found = current.some((line) => line.item.id === item.id);
      if (!found) {
        return [...current, { item, quantity: 1 }];
      }
      return current.map((line) =>
        line.item.id === item.id ? { ...line, quantity: line.quantity + 1 } : line,
      );
    });
  }, []);

  const remove = useCallback((itemId: string) => {
    setLines((current) => current.filter((line) => line.item.id !== itemId));
  }, []);

  const clear = useCallback(() => setLines([]), []);

  return { lines, add, remove, clear };
}
