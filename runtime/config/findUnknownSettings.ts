import { existsSync, readFileSync } from "node:fs";
import { parseEnv } from "node:util";
import { SECRET_SETTING_NAMES } from "./readSecretFiles.ts";

/** Variables of libpq that node-postgres and PostgreSQL's programs read. */
const OF_LIBPQ = [
  "PGAPPNAME",
  "PGCHANNELBINDING",
  "PGCLIENTENCODING",
  "PGCONNECT_TIMEOUT",
  "PGDATABASE",
  "PGHOST",
  "PGHOSTADDR",
  "PGOPTIONS",
  "PGPASSFILE",
  "PGPASSWORD",
  "PGPORT",
  "PGSERVICE",
  "PGSERVICEFILE",
  "PGSSLCERT",
  "PGSSLCRL",
  "PGSSLKEY",
  "PGSSLMODE",
  "PGSSLNEGOTIATION",
  "PGSSLROOTCERT",
  "PGTARGETSESSIONATTRS",
  "PGTZ",
  "PGUSER",
];

/** Variables of Temporal's SDK. */
const OF_TEMPORAL = [
  "TEMPORAL_API_KEY",
  "TEMPORAL_CODEC_AUTH",
  "TEMPORAL_CODEC_ENDPOINT",
  "TEMPORAL_CONFIG_FILE",
  "TEMPORAL_PROFILE",
  "TEMPORAL_TLS",
  "TEMPORAL_TLS_CLIENT_CERT_DATA",
  "TEMPORAL_TLS_CLIENT_CERT_PATH",
  "TEMPORAL_TLS_CLIENT_KEY_DATA",
  "TEMPORAL_TLS_CLIENT_KEY_PATH",
  "TEMPORAL_TLS_DISABLE_HOST_VERIFICATION",
  "TEMPORAL_TLS_SERVER_CA_CERT_DATA",
  "TEMPORAL_TLS_SERVER_CA_CERT_PATH",
  "TEMPORAL_TLS_SERVER_NAME",
];

/** Variables that select the servers and programs of our tests. */
const OF_TESTS = [
  "TEST_CADDY",
  "TEST_CHROMIUM",
  "TEST_DATABASE_URL",
  "TEST_HAPROXY",
  "TEST_HELM",
  "TEST_NGINX",
  "TEST_PGBOUNCER",
  "TEST_TEMPORAL_ADDRESS",
];

const OF_OTHERS: ReadonlySet<string> = new Set([
  ...OF_LIBPQ,
  ...OF_TEMPORAL,
  ...OF_TESTS,
  ...SECRET_SETTING_NAMES.map((name) => `${name}_FILE`),
]);

/** Variables of OpenTelemetry, of gRPC's metadata in Temporal's SDK, Node, npm, Docker Compose, and of programs in general. */
const NAMED_BY_OTHERS =
  /^(?:(?:TEMPORAL_GRPC_META|OTEL|NODE|NPM|COMPOSE|DOCKER|LC)_\w+|LANG|LANGUAGE|TZ|TMPDIR|PATH|(?:HTTPS?|ALL|NO)_PROXY)$/iu;

const EXAMPLE = new URL("../../.env.example", import.meta.url);

/** Returns the names that `.env` in the working directory sets and no program reads, such as misspelt settings. */
export const findUnknownSettings = (): readonly string[] => {
  if (!existsSync(".env") || !existsSync(EXAMPLE)) {
    return [];
  }
  const example = readFileSync(EXAMPLE, "utf8").replaceAll(/^#(?=[A-Z_]+=)/gmu, "");
  const known = new Set(Object.keys(parseEnv(example)));
  return Object.keys(parseEnv(readFileSync(".env", "utf8"))).filter(
    (name) => !known.has(name) && !OF_OTHERS.has(name) && !NAMED_BY_OTHERS.test(name),
  );
};

/** Says what to do about unknown settings. */
export const describeUnknownSettings = (names: readonly string[]): string =>
  `no program reads ${names.join(", ")} in the file .env. Correct or remove ${names.length === 1 ? "it" : "them"}; .env.example lists all settings`;
