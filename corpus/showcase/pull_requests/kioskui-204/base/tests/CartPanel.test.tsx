import { cleanup, fireEvent, render, screen } from "@testing-library/react";
import { afterEach, describe, expect, it, vi } from "vitest";
import { CartPanel } from "../src/components/CartPanel";

const soup = { id: "soup", name: "Soup", description: "", priceCents: 450, allergens: [] };

afterEach(cleanup);

describe("CartPanel", () => {
  it("hands the note to checkout", () => {
    const onCheckout = vi.fn().mockResolvedValue(undefined);
    render(
      <CartPanel lines={[{ item: soup, quantity: 2 }]} onRemove={vi.fn()} onCheckout={onCheckout} />,
    );
    fireEvent.change(screen.getByLabelText("Note for the kitchen"), { target: { value: "no bread" } });
    fireEvent.click(screen.getByRole("button", { name: "Checkout €9.00" }));
    expect(onCheckout).toHaveBeenCalledWith("no bread");
  });

  it("cannot check out an empty cart", () => {
    render(<CartPanel lines={[]} onRemove={vi.fn()} onCheckout={vi.fn()} />);
    expect(screen.getByRole("button", { name: "Checkout €0.00" })).toHaveProperty("disabled", true);
  });
});
