import assert from "node:assert/strict";
import { test } from "node:test";
import { createPoll, startApp } from "./helpers.js";

test("a vote is counted", async (t) => {
  const app = await startApp(t);
  const poll = await createPoll(app);
  assert.equal((await app.call("POST", `/polls/${poll.id}/votes`, { option: 1 })).status, 204);
  const shown = await (await app.call("GET", `/polls/${poll.id}`)).json();
  assert.deepEqual(shown.votes, [0, 1]);
});

test("only the admin can delete a poll", async (t) => {
  const app = await startApp(t);
  const poll = await createPoll(app);
  assert.equal((await app.call("DELETE", `/polls/${poll.id}`)).status, 403);
  const authorization = `Bearer ${poll.adminToken}`;
  assert.equal((await app.call("DELETE", `/polls/${poll.id}`, undefined, { authorization })).status, 204);
  assert.equal((await app.call("GET", `/polls/${poll.id}`)).status, 404);
});

test("a large body is refused", async (t) => {
  const app = await startApp(t);
  const response = await app.call("POST", "/polls", { question: "x".repeat(2000), options: ["a", "b"] });
  assert.equal(response.status, 413);
});
