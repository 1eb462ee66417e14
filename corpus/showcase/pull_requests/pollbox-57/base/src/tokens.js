import { createHmac, timingSafeEqual } from "node:crypto";
import { HttpError } from "./http/errors.js";

export function adminToken(secret, pollId) {
  return createHmac("sha256", secret).update(pollId).digest("base64url");
}

/** Compares two tokens without telling by the time taken how much of them agrees. */
export function sameToken(left, right) {
  const a = Buffer.from(String(left));
  const b = Buffer.from(String(right));
  return a.length === b.length && timingSafeEqual(a, b);
}

export function requireAdmin(request, secret, pollId) {
  const header = request.headers.authorization ?? "";
  const given = header.startsWith("Bearer ") ? header.slice(7) : "";
  if (!sameToken(given, adminToken(secret, pollId))) {
    throw new HttpError(403, "admin token is needed");
  }
}
