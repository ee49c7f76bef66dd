import { existsSync } from "node:fs";

// Preloaded by the npm scripts only, because tests must not depend on a developer's .env. Node's --env-file-if-exists
// would report a missing file on every start.
if (existsSync(".env")) {
  process.loadEnvFile();
}
