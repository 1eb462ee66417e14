import { expect, it } from "vitest";
import { renderReceipt } from "../src/receipt";
import { EMMA } from "./fixtures/library";

const loan = { isbn: EMMA.isbn, reader: "ada", due: new Date("2024-03-22T09:00:00Z") };

it("prints a receipt for a return in time", () => {
  expect(renderReceipt(EMMA, loan, new Date("2024-03-20T12:00:00Z"))).toMatchSnapshot();
});

it("prints the fine of a late return", () => {
  expect(renderReceipt(EMMA, loan, new Date("2024-03-23T21:00:00Z"))).toMatchSnapshot();
});
