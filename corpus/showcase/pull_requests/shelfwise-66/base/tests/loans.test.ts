import { describe, expect, it } from "vitest";
import { daysOverdue, dueDate, finePence } from "../src/loans";

const due = new Date("2024-03-22T09:00:00Z");

describe("loans", () => {
  it("lends for three weeks", () => {
    expect(dueDate(new Date("2024-03-01T09:00:00Z"))).toEqual(due);
  });

  it("counts each started day", () => {
    expect(daysOverdue(due, new Date("2024-03-22T09:00:01Z"))).toBe(1);
    expect(daysOverdue(due, new Date("2024-03-23T21:00:00Z"))).toBe(2);
  });

  it("costs nothing in time", () => {
    expect(finePence(due, due)).toBe(0);
  });
});
