import { existsSync, readFileSync } from "node:fs";
import { parseEnv } from "node:util";

/** Variables of libpq, Temporal's and OpenTelemetry's SDKs, Node, npm, Docker Compose, our tests, and of programs in general. */
const OF_OTHERS =
  /^(?:PG|TEMPORAL_|OTEL_|NODE_|NPM_|COMPOSE_|DOCKER_|TEST_|LC_|LANG|TZ|TMPDIR|PATH|(?:HTTPS?|ALL|NO)_PROXY$)/iu;

const EXAMPLE = new URL("../.env.example", import.meta.url);

/** Returns the names that `.env` in the working directory sets and no program reads, such as misspelt settings. */
export const findUnknownSettings = (): readonly string[] => {
  if (!existsSync(".env") || !existsSync(EXAMPLE)) {
    return [];
  }
  const example = readFileSync(EXAMPLE, "utf8").replaceAll(/^#(?=[A-Z_]+=)/gmu, "");
  const known = new Set(Object.keys(parseEnv(example)));
  return Object.keys(parseEnv(readFileSync(".env", "utf8"))).filter(
    (name) => !known.has(name.replace(/_FILE$/u, "")) && !OF_OTHERS.test(name),
  );
};

/** Says what to do about unknown settings. */
export const describeUnknownSettings = (names: readonly string[]): string =>
  `no program reads ${names.join(", ")} in the file .env. Correct or remove ${names.length === 1 ? "it" : "them"}; .env.example lists all settings`;
