import { useEffect, useState } from "react";
import { loadMenu } from "../api/orders";
import type { MenuItem } from "../types";

export function useMenu(): MenuItem[] {
  const [items, setItems] = useState<MenuItem[]>([]);

  useEffect(() => {
    const abort = new AbortController();
    loadMenu(abort.signal)
      .then(setItems)
      .catch((error: unknown) => {
        if (!abort.signal.aborted) {
          console.error("menu could not be loaded", error);
        }
      });
    return () => abort.abort();
  }, []);

  return items;
}
