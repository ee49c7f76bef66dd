import { existsSync } from "node:fs";

// Loaded by the npm scripts and the launcher of `impact` only, because tests must not depend on a developer's .env. Node's
// --env-file-if-exists would report a missing file on every start.
if (existsSync(".env")) {
  process.loadEnvFile();
}
