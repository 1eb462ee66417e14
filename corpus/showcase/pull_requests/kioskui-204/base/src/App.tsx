import { useState } from "react";
import { submitOrder } from "./api/orders";
import { CartPanel } from "./components/CartPanel";
import { MenuGrid } from "./components/MenuGrid";
import { useCart } from "./hooks/useCart";
import { useIdleReset } from "./hooks/useIdleReset";
import { useMenu } from "./hooks/useMenu";

const IDLE_MS = 60_000;

export function App() {
  const menu = useMenu();
  const cart = useCart();
  const [message, setMessage] = useState("");

  useIdleReset(IDLE_MS, cart.clear);

  async function checkout(note: string) {
    try {
      const receipt = await submitOrder(cart.lines, note);
      cart.clear();
      setMessage(`Thank you. Your order number is ${receipt.number}.`);
    } catch {
      setMessage("Your order could not be sent. Please ask our staff for help.");
    }
  }

  return (
    <main className="kiosk">
      <MenuGrid items={menu} onAdd={cart.add} />
      <CartPanel lines={cart.lines} onRemove={cart.remove} onCheckout={checkout} />
      <p className="kiosk-message" aria-live="polite">
        {message}
      </p>
    </main>
  );
}
