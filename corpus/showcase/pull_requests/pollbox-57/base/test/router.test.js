import assert from "node:assert/strict";
import { test } from "node:test";
import { Router } from "../src/router.js";

test("finds a route and its parameters", () => {
  const router = new Router();
  const handler = () => {};
  router.add("GET", "/polls/:id", handler);
  assert.deepEqual(router.find("GET", "/polls/a%20b"), { handler, params: { id: "a b" } });
  assert.equal(router.find("POST", "/polls/x"), null);
  assert.equal(router.find("GET", "/polls"), null);
});
