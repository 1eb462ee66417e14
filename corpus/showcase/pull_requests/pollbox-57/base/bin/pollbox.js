#!/usr/bin/env node
import { readFile } from "node:fs/promises";
import { createApp } from "../src/server.js";

const path = process.env.POLLBOX_CONFIG ?? new URL("../config/default.json", import.meta.url);
const config = JSON.parse(await readFile(path, "utf8"));

createApp(config).listen(config.port, () => {
  console.log(`pollbox listens on ${config.port}`);
});
