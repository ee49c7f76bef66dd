import { existsSync, readFileSync } from "node:fs";
import { parseEnv } from "node:util";
import { SECRET_SETTING_NAMES, SETTING_NAMES } from "./config.ts";

const KNOWN = new Set([...SETTING_NAMES, ...SECRET_SETTING_NAMES.map((name) => `${name}_FILE`)]);

/**
 * Variables of docker-compose.yml, libpq, Temporal's SDK, OpenTelemetry, Node, npm, Docker Compose, and of programs in general.
 * Names that change encryption are listed, because a misspelt one would weaken it silently.
 */
const NAMED_BY_OTHERS =
  /^(?:(?:POSTGRES|OWNER|APP|TEMPORAL)_PASSWORD|PUBLISH_ADDRESS|PG(?!SSL)[A-Z]+|PGSSL(?:MODE|ROOTCERT|CERT|KEY)|TEMPORAL_(?:API_KEY|CODEC|CONFIG_FILE|PROFILE|TLS|GRPC_META)\w*|(?:OTEL|NODE|NPM|COMPOSE|DOCKER|LC)_\w+|TEST_(?:DATABASE_URL|TEMPORAL_ADDRESS|[A-Z]+)|LANG|LANGUAGE|TZ|TMPDIR|PATH|(?:HTTPS?|NO)_PROXY)$/iu;

/**
 * Returns what to do about the names that `.env` in the working directory sets and no program reads, such as misspelt settings:
 * without `STRIPE_SECRET_KEY`, usage is billed by the built-in ledger. Null if there are none.
 */
export const describeUnknownSettings = (): string | null => {
  const names = existsSync(".env") ? Object.keys(parseEnv(readFileSync(".env", "utf8"))) : [];
  const unknown = names.filter((name) => !KNOWN.has(name) && !NAMED_BY_OTHERS.test(name));
  return unknown.length === 0
    ? null
    : `no program reads ${unknown.join(", ")} in the file .env; .env.example lists all settings`;
};
