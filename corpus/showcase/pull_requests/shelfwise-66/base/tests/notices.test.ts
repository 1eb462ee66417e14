import { expect, it, vi } from "vitest";
import { sendNotice } from "../src/notices";

it("tries again when a notice is refused", async () => {
  const send = vi.fn().mockRejectedValueOnce(new Error("busy")).mockResolvedValue(undefined);
  expect(await sendNotice(send, "ada", "Emma is due", 1)).toBe(2);
});

it("gives up after three tries", async () => {
  const send = vi.fn().mockRejectedValue(new Error("busy"));
  await expect(sendNotice(send, "ada", "Emma is due", 1)).rejects.toThrow("busy");
});
