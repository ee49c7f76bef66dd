import { existsSync, readFileSync } from "node:fs";
import { parseEnv } from "node:util";
import { z } from "zod";
import { completeDatabaseUrl, LIBPQ_VARIABLES, readDatabaseUrl } from "./databaseUrl.ts";
import { oneOf } from "../describeIssues.rules.ts";
import { errorDetails, StartupError } from "../errors.rules.ts";
import { mayReceiveKeys } from "../loopback.rules.ts";
import { CELL_NAME } from "../cell.rules.ts";
import { PARTNER_KINDS, TIMELINE_SHAPES } from "./partnerKinds.rules.ts";

const matching = (pattern: RegExp, what: string) => z.string().regex(pattern, `must be ${what}`);

/** A whole number; the largest has nine digits. */
const integer = (minimum: number, maximum = 999_999_999) =>
  matching(/^\d{1,9}$/u, "a whole number")
    .transform(Number)
    .refine((value) => value >= minimum, `must be at least ${minimum}`)
    .refine((value) => value <= maximum, `must be at most ${maximum}`);

/** A day. Timers of Node and of PostgreSQL end after 24 days: Node's run out at once, PostgreSQL's are refused. */
const MAXIMUM_TIMER_SECONDS = 86_400;

const PORT = "a port number from 0 to 65535";

const port = (fallback: number) =>
  matching(/^\d{1,5}$/u, `${PORT} (0 for any free port)`)
    .transform(Number)
    .refine((value) => value <= 65_535, `must be ${PORT}`)
    .default(fallback);

const metricsPort = (fallback: number) =>
  z.union([z.literal("off"), port(fallback)], { error: `must be ${PORT}, or off` });

const listenAddress = z.string().default("127.0.0.1");

const webUrl = z
  .url({ protocol: /^https?$/u, error: "must be an http:// or https:// URL" })
  .transform((url) => url.replace(/\/+$/u, ""));

const apiBase = webUrl.refine(mayReceiveKeys, {
  error: "must be an https:// URL, unless its host is localhost or a loopback address",
});

const network = z.union([z.cidrv4(), z.cidrv6()]);

const networks = z
  .string()
  .refine(
    (given) =>
      given.split(",").every((each) => network.safeParse(each.trim().replace(/^!/u, "")).success),
    "must be networks such as 10.1.0.0/16 or !203.0.113.0/24, separated by commas",
  );

const stripePrice = matching(/^price_\w+$/u, "the id of a Stripe price (price_…)");

/** A setting whose value may be in a file instead, which a setting with the suffix `_FILE` names. */
const secret = (schema: z.ZodString) => schema.optional().meta({ isSecret: true });

const databaseUrl = z.string().superRefine((url, context) => {
  try {
    readDatabaseUrl(url);
  } catch (error) {
    context.addIssue(errorDetails(error).message);
  }
});

const apiKey = matching(/^[\u0021-\u007E]+$/u, "a key without spaces");

// Four: the destinations of snapshot and thin events have a secret each, and two each during a rotation.
const webhookSecrets = matching(
  /^whsec_[^\s,]+(?:,whsec_[^\s,]+){0,3}$/u,
  "one to four signing secrets (whsec_…), separated by commas",
);

// Two, so that a secret can be replaced.
const sharedSecrets = matching(
  /^[^\s,]{32,200}(?:,[^\s,]{32,200})?$/u,
  "one or two secrets of at least 32 characters, separated by a comma",
);

const settings = z.object({
  HOST: listenAddress,
  METRICS_HOST: listenAddress,
  PORT: port(8080),
  STORE_PORT: port(8081),
  METRICS_PORT: metricsPort(9464),
  WORKER_METRICS_PORT: metricsPort(9465),
  DRAIN_SECONDS: integer(0, MAXIMUM_TIMER_SECONDS).default(5),
  TRUSTED_PROXIES: integer(0).default(0),
  PUBLIC_BASE_URL: webUrl.optional(),
  CELL: matching(
    CELL_NAME,
    "one to eight lower-case letters and digits, a letter first",
  ).optional(),
  DATA_DIR: z.string().default("./.data"),
  DATABASE_URL: secret(databaseUrl),
  DATABASE_OWNER_URL: secret(databaseUrl),
  DATABASE_POOL_SIZE: integer(2).default(10),
  TEMPORAL_ADDRESS: matching(/^[^\s:/]+:\d{1,5}$/u, "host:port").optional(),
  TEMPORAL_NAMESPACE: z.string().optional(),
  TEMPORAL_CLI: z.string().optional(),
  STRIPE_SECRET_KEY: secret(
    matching(/^(sk|rk)_\S+$/u, "a Stripe secret or restricted key (sk_… or rk_…)"),
  ),
  STRIPE_API_BASE: apiBase.default("https://api.stripe.com"),
  STRIPE_WEBHOOK_SECRET: secret(webhookSecrets),
  // Stripe's limit of meter events in live mode.
  STRIPE_CALLS_PER_SECOND: integer(1).default(1000),
  STRIPE_DONATION_FLAT_PRICE: stripePrice.optional(),
  STRIPE_DONATION_METERED_PRICE: stripePrice.optional(),
  EVERYORG_API_KEY: secret(apiKey),
  CHANGE_PUBLIC_KEY: secret(apiKey),
  CHANGE_SECRET_KEY: secret(apiKey),
  PLEDGE_API_KEY: secret(apiKey),
  CHARITY_API_BASE: apiBase.optional(),
  PLANTING_PARTNER: oneOf(PARTNER_KINDS).default("simulated"),
  PLANTING_PARTNER_NAME: z.string().max(200, "must be a name").optional(),
  PLANTING_ORDER_INTERVAL_SECONDS: integer(1).optional(),
  PLANTING_TIMELINE: oneOf(TIMELINE_SHAPES).default("allocations"),
  STORE_PLATFORM_SECRET: secret(sharedSecrets),
  PLANTING_CALLBACK_SECRET: secret(sharedSecrets),
  WEBHOOK_ALLOW_HTTP: z.enum(["on", "off"], { error: "must be on or off" }).default("off"),
  WEBHOOK_ALLOWED_NETWORKS: networks.optional(),
  SIMULATED_PLANTING_SECONDS: integer(0).default(60),
  TREEMAPPER_API_KEY: secret(matching(/^tm_\S+$/u, "a TreeMapper project key (tm_…)")),
  TREEMAPPER_API_BASE: apiBase.default("https://dash.treemapper.app/api/v1/public"),
  EMBEDDED_POSTGRES_PORT: port(54_329),
  EMBEDDED_TEMPORAL_PORT: port(7243),
  EMBEDDED_TEMPORAL_UI_PORT: port(8243),
  OTEL_EXPORTER_OTLP_ENDPOINT: webUrl.optional(),
  LOG_LEVEL: oneOf(["fatal", "error", "warn", "info", "debug", "trace", "silent"]).default("info"),
  LOG_FORMAT: oneOf(["auto", "json", "pretty"]).default("auto"),
});

/** Variables of OpenTelemetry, with their usual meaning. */
const tracingVariables = z.object({
  OTEL_TRACES_SAMPLER_ARG: matching(/^(?:0(?:\.\d{1,9})?|1(?:\.0{1,9})?)$/u, "a number from 0 to 1")
    .transform(Number)
    .default(1),
  OTEL_BSP_SCHEDULE_DELAY: integer(1).default(5000),
});

export const SETTING_NAMES: readonly string[] = Object.keys(settings.shape);

export const SECRET_SETTING_NAMES: readonly string[] = Object.entries(settings.shape)
  .filter(([, schema]) => schema.meta()?.["isSecret"] === true)
  .map(([name]) => name);

/** The names of all variables that set a setting. */
export const VARIABLE_NAMES: readonly string[] = [
  ...SETTING_NAMES,
  ...SECRET_SETTING_NAMES.map((name) => `${name}_FILE`),
];

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
  const unknown = names.filter(
    (name) => !VARIABLE_NAMES.includes(name) && !NAMED_BY_OTHERS.test(name),
  );
  return unknown.length === 0
    ? null
    : `no program reads ${unknown.join(", ")} in the file .env; .env.example lists all settings`;
};

/** Variables of libpq and OpenTelemetry that the service reads, too. */
export const STANDARD_VARIABLES: readonly string[] = [
  ...LIBPQ_VARIABLES,
  ...Object.keys(tracingVariables.shape),
];

const configuration = settings.extend(tracingVariables.shape);

export type Config = Readonly<z.output<typeof configuration>>;

/** Malformed settings; the message lists each one and what it must be. */
export class ConfigError extends StartupError {}

type Given = Readonly<Record<string, string>>;

/** Returns the secrets that are in files, without the line feed at the end, and adds what is wrong with them to the faults. */
const readSecretFiles = (given: Given, faults: string[]): Given => {
  const secrets: Record<string, string> = {};
  for (const name of SECRET_SETTING_NAMES) {
    const path = given[`${name}_FILE`];
    if (path !== undefined && given[name] !== undefined) {
      faults.push(`${name} and ${name}_FILE are both set; set only one of them`);
    } else if (path !== undefined) {
      try {
        secrets[name] = readFileSync(path, "utf8").replace(/\r?\n$/u, "");
      } catch (error) {
        const { message } = errorDetails(error);
        faults.push(`${name}_FILE must be a file that can be read: ${message}`);
      }
    }
  }
  return secrets;
};

/**
 * Parses the configuration. An empty variable counts as not set.
 * @throws ConfigError if a setting is malformed; it never falls back to the default
 */
export const parseConfig = (env: Readonly<Record<string, string | undefined>>): Config => {
  const faults: string[] = [];
  const inEnvironment = Object.fromEntries(
    Object.entries(env).flatMap(([name, value]) => (value ? [[name, value]] : [])),
  );
  const given: Record<string, string> = {
    ...inEnvironment,
    ...readSecretFiles(inEnvironment, faults),
  };
  for (const name of ["DATABASE_URL", "DATABASE_OWNER_URL"]) {
    const url = given[name];
    Object.assign(given, url === undefined ? {} : { [name]: completeDatabaseUrl(url, given) });
  }
  const result = configuration.safeParse(given);
  faults.unshift(
    ...(result.error?.issues ?? []).map(({ path, message }) => `${path.join(".")} ${message}`),
  );
  if (!result.success || faults.length > 0) {
    throw new ConfigError(["Invalid settings:", ...faults].join("\n  "));
  }
  return Object.freeze(result.data);
};

/** Returns the environment of a child process: ours without the variables that match `without`, and with these settings. */
export const buildChildEnvironment = (
  without: RegExp | null,
  childSettings: Readonly<Record<string, string>>,
): NodeJS.ProcessEnv => {
  const inherited = Object.entries(process.env).filter(([name]) => without?.test(name) !== true);
  return { ...Object.fromEntries(inherited), ...childSettings };
};

/**
 * Parses the environment of this process.
 * @param given settings that replace those of the environment
 */
export const readConfig = (given: Readonly<Record<string, string>> = {}): Config =>
  parseConfig({ ...process.env, ...given });
