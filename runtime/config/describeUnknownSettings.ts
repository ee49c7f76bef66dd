import { existsSync, readFileSync } from "node:fs";
import { parseEnv } from "node:util";
import { SECRET_SETTING_NAMES } from "./config.ts";

/**
 * Variables of libpq, Temporal's SDK, OpenTelemetry, Node, npm, Docker Compose, and of programs in general. Names that change
 * encryption are listed, because a misspelt one would weaken it silently.
 */
const NAMED_BY_OTHERS =
  /^(?:PG(?!SSL)[A-Z]+|PGSSL(?:MODE|ROOTCERT|CERT|KEY)|TEMPORAL_(?:API_KEY|CODEC|CONFIG_FILE|PROFILE|TLS|GRPC_META)\w*|(?:OTEL|NODE|NPM|COMPOSE|DOCKER|LC)_\w+|TEST_(?:DATABASE_URL|TEMPORAL_ADDRESS|[A-Z]+)|LANG|LANGUAGE|TZ|TMPDIR|PATH|(?:HTTPS?|NO)_PROXY)$/iu;

const EXAMPLE = new URL("../../.env.example", import.meta.url);

/**
 * Returns what to do about the names that `.env` in the working directory sets and no program reads, such as misspelt settings:
 * without `STRIPE_SECRET_KEY`, usage is billed by the built-in ledger. Null if there are none.
 */
export const describeUnknownSettings = (): string | null => {
  if (!existsSync(".env") || !existsSync(EXAMPLE)) {
    return null;
  }
  const example = readFileSync(EXAMPLE, "utf8").replaceAll(/^#(?=[A-Z_]+=)/gmu, "");
  const files = SECRET_SETTING_NAMES.map((name) => `${name}_FILE`);
  const known = new Set([...Object.keys(parseEnv(example)), ...files]);
  const unknown = Object.keys(parseEnv(readFileSync(".env", "utf8"))).filter(
    (name) => !known.has(name) && !NAMED_BY_OTHERS.test(name),
  );
  return unknown.length === 0
    ? null
    : `no program reads ${unknown.join(", ")} in the file .env; .env.example lists all settings`;
};
