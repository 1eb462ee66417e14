import { describe, expect, it } from "vitest";
import { DUNE, EMMA, START, makeLibrary } from "./fixtures/library";

describe("Library", () => {
  it("lends a book once", async () => {
    const library = makeLibrary();
    await library.lend(EMMA.isbn, "ada");
    expect(library.available()).toEqual([DUNE]);
    await expect(library.lend(EMMA.isbn, "bob")).rejects.toThrow("lent already");
  });

  it("takes a fine for a late return", async () => {
    let now = START;
    const library = makeLibrary(() => now);
    await library.lend(EMMA.isbn, "ada");
    now = new Date("2024-03-23T21:00:00Z");
    expect(await library.giveBack(EMMA.isbn)).toBe(50);
  });
});
