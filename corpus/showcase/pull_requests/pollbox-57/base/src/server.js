import { createServer } from "node:http";
import { HttpError } from "./http/errors.js";
import { sendJson } from "./http/respond.js";
import { addPollRoutes } from "./polls.js";
import { Router } from "./router.js";
import { Store } from "./store.js";

export function createApp(config) {
  const router = new Router();
  const store = new Store(config.dataDir);
  addPollRoutes(router, { store, config });

  return createServer(async (request, response) => {
    try {
      const { pathname } = new URL(request.url, "http://pollbox");
      const found = router.find(request.method, pathname);
      if (!found) {
        throw new HttpError(404, "not found");
      }
      await found.handler(request, response, found.params);
    } catch (error) {
      const status = error instanceof HttpError ? error.status : 500;
      if (status === 500) {
        console.error(error);
      }
      if (!response.headersSent) {
        sendJson(response, status, { error: status === 500 ? "internal error" : error.message });
      }
    }
  });
}
