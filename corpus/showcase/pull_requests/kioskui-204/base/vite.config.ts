import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [react()],
  server: { proxy: { "/api": "http://localhost:8080" } },
  test: { environment: "jsdom", include: ["tests/**/*.test.{ts,tsx}"] },
});
