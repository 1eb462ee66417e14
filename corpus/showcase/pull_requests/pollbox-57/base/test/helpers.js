import { mkdtemp, rm } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { createApp } from "../src/server.js";

/** Starts an app on a free port with an empty data directory. */
export async function startApp(t) {
  const dataDir = await mkdtemp(path.join(os.tmpdir(), "pollbox-"));
  const server = createApp({ dataDir, secret: "s3cret", maxBodyBytes: 1024 });
  await new Promise((resolve) => server.listen(0, resolve));
  t.after(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await rm(dataDir, { recursive: true, force: true });
  });
  const base = `http://127.0.0.1:${server.address().port}`;
  return {
    dataDir,
    call: (method, url, body, headers = {}) =>
      fetch(base + url, { method, headers, body: typeof body === "object" ? JSON.stringify(body) : body }),
  };
}

export async function createPoll(app) {
  const response = await app.call("POST", "/polls", { question: "Lunch?", options: ["soup", "salad"] });
  return response.json();
}
