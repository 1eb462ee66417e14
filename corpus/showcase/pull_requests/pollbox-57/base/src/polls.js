import { randomBytes } from "node:crypto";
import { readJson } from "./http/body.js";
import { HttpError } from "./http/errors.js";
import { sendEmpty, sendJson } from "./http/respond.js";
import { adminToken, requireAdmin } from "./tokens.js";

export function addPollRoutes(router, { store, config }) {
  router.add("POST", "/polls", async (request, response) => {
    const { question, options } = await readJson(request, config.maxBodyBytes);
    if (typeof question !== "string" || !Array.isArray(options) || options.length < 2) {
      throw new HttpError(400, "a question and two options are needed");
    }
    const id = randomBytes(6).toString("hex");
    const poll = { id, question, options: options.map(String), votes: options.map(() => 0) };
    await store.save(poll);
    sendJson(response, 201, { ...poll, adminToken: adminToken(config.secret, id) });
  });

  router.add("GET", "/polls/:id", async (request, response, { id }) => {
    sendJson(response, 200, await store.load(id));
  });

  router.add("POST", "/polls/:id/votes", async (request, response, { id }) => {
    const { option } = await readJson(request, config.maxBodyBytes);
    const poll = await store.load(id);
    if (!Number.isInteger(option) || option < 0 || option >= poll.options.length) {
      throw new HttpError(400, "no such option");
    }
    poll.votes[option] += 1;
    await store.save(poll);
    sendEmpty(response);
  });

  router.add("DELETE", "/polls/:id", async (request, response, { id }) => {
    requireAdmin(request, config.secret, id);
    await store.remove(id);
    sendEmpty(response);
  });
}
