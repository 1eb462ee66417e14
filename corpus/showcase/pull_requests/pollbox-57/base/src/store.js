import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { HttpError } from "./http/errors.js";

const ID = /^[a-z0-9]{12}$/;

/** Keeps each poll in <dataDir>/<id>.json. */
export class Store {
  constructor(dataDir) {
    this.dataDir = dataDir;
  }

  async load(id) {
    try {
      return JSON.parse(await readFile(this.#file(id), "utf8"));
    } catch (error) {
      if (error.code === "ENOENT") {
        throw new HttpError(404, "no such poll");
      }
      throw error;
    }
  }

  async save(poll) {
    await mkdir(this.dataDir, { recursive: true });
    const file = this.#file(poll.id);
    await writeFile(`${file}.new`, JSON.stringify(poll));
    await rename(`${file}.new`, file);
  }

  async remove(id) {
    await rm(this.#file(id));
  }

  #file(id) {
    if (!ID.test(id)) {
      throw new HttpError(404, "no such poll");
    }
    return path.join(this.dataDir, `${id}.json`);
  }
}
