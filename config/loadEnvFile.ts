import { existsSync } from "node:fs";

// Preloaded by the npm scripts, and only by them: tests must not depend on a developer's .env. Node's own
// --env-file-if-exists would report a missing file on every start.
if (existsSync(".env")) {
  process.loadEnvFile();
}
