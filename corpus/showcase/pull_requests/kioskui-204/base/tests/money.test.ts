import { describe, expect, it } from "vitest";
import { formatCents, totalCents } from "../src/lib/money";

const soup = { id: "soup", name: "Soup", description: "", priceCents: 450, allergens: ["celery"] };

describe("money", () => {
  it("formats cents as euro", () => {
    expect(formatCents(450)).toBe("€4.50");
  });

  it("adds up quantities", () => {
    expect(totalCents([{ item: soup, quantity: 3 }])).toBe(1350);
  });
});
