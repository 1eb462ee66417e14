import { highlightAllergens } from "../lib/highlight";
import { formatCents } from "../lib/money";
import type { MenuItem } from "../types";

interface Props {
  items: MenuItem[];
  onAdd: (item: MenuItem) => void;
}

export function MenuGrid({ items, onAdd }: Props) {
  return (
    <section aria-label="Menu" className="menu-grid">
      {items.map((item) => (
        <article key={item.id} className="menu-card">
          <h2>{item.name}</h2>
          <p dangerouslySetInnerHTML={{ __html: highlightAllergens(item.description) }} />
          <button type="button" onClick={() => onAdd(item)}>
            Add {item.name}, {formatCents(item.priceCents)}
          </button>
        </article>
      ))}
    </section>
  );
}
