import { useState } from "react";
import { formatCents, totalCents } from "../lib/money";
import type { CartLine } from "../types";

interface Props {
  lines: CartLine[];
  onRemove: (itemId: string) => void;
  onCheckout: (note: string) => Promise<void>;
}

export function CartPanel({ lines, onRemove, onCheckout }: Props) {
  const [note, setNote] = useState("");
  const [sending, setSending] = useState(false);

  async function handleCheckout() {
    setSending(true);
    try {
      await onCheckout(note);
      setNote("");
    } finally {
      setSending(false);
    }
  }

  return (
    <section aria-label="Your order" className="cart-panel">
      <ul>
        {lines.map((line) => (
          <li key={line.item.id}>
            {line.quantity} × {line.item.name}
            <button type="button" onClick={() => onRemove(line.item.id)}>
              Remove {line.item.name}
            </button>
          </li>
        ))}
      </ul>
      <label>
        Note for the kitchen
        <input value={note} maxLength={140} onChange={(event) => setNote(event.target.value)} />
      </label>
      <button type="button" disabled={sending || lines.length === 0} onClick={handleCheckout}>
        Checkout {formatCents(totalCents(lines))}
      </button>
    </section>
  );
}
