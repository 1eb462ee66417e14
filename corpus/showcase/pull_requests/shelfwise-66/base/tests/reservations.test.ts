import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Reservations } from "../src/reservations";

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

describe("Reservations", () => {
  it("keeps a book for the first in the queue", () => {
    const reservations = new Reservations(1000);
    reservations.reserve("978-1", "ada");
    reservations.reserve("978-1", "bob");
    expect(reservations.hold("978-1")).toBe("ada");
  });

  it("passes the book on when it is not collected", () => {
    const reservations = new Reservations(1000);
    reservations.reserve("978-1", "ada");
    reservations.reserve("978-1", "bob");
    reservations.hold("978-1");
    vi.advanceTimersByTime(1000);
    expect(reservations.heldFor("978-1")).toBe("bob");
  });
});
