import { existsSync, readFileSync } from "node:fs";
import { parseEnv } from "node:util";
import { SECRET_SETTING_NAMES } from "./readSecretFiles.ts";

const SECRET_FILES: ReadonlySet<string> = new Set(
  SECRET_SETTING_NAMES.map((name) => `${name}_FILE`),
);

/**
 * Variables of libpq, Temporal's SDK, OpenTelemetry, Node, npm, Docker Compose, our tests, and of programs in general. Names
 * that change encryption are listed, because a misspelt one would weaken it silently.
 */
const NAMED_BY_OTHERS =
  /^(?:PG(?!SSL)[A-Z]+|PGSSL(?:MODE|ROOTCERT|CERT|KEY)|TEMPORAL_(?:API_KEY|CODEC|CONFIG_FILE|PROFILE|TLS|GRPC_META)\w*|(?:OTEL|NODE|NPM|COMPOSE|DOCKER|LC)_\w+|TEST_(?:DATABASE_URL|TEMPORAL_ADDRESS|[A-Z]+)|LANG|LANGUAGE|TZ|TMPDIR|PATH|(?:HTTPS?|NO)_PROXY)$/iu;

const EXAMPLE = new URL("../../.env.example", import.meta.url);

/** Returns the names that `.env` in the working directory sets and no program reads, such as misspelt settings. */
export const findUnknownSettings = (): readonly string[] => {
  if (!existsSync(".env") || !existsSync(EXAMPLE)) {
    return [];
  }
  const example = readFileSync(EXAMPLE, "utf8").replaceAll(/^#(?=[A-Z_]+=)/gmu, "");
  const known = new Set(Object.keys(parseEnv(example)));
  return Object.keys(parseEnv(readFileSync(".env", "utf8"))).filter(
    (name) => !known.has(name) && !SECRET_FILES.has(name) && !NAMED_BY_OTHERS.test(name),
  );
};

/** Says what to do about unknown settings. */
export const describeUnknownSettings = (names: readonly string[]): string =>
  `no program reads ${names.join(", ")} in the file .env. Correct or remove ${names.length === 1 ? "it" : "them"}; .env.example lists all settings`;
