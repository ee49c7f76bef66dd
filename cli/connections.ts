import { resolve } from "node:path";
import type { Client } from "@temporalio/client";
import type { DatabasePool } from "slonik";
import type { Config } from "../config/config.ts";
import { readRunFile } from "../embedded/runFile.ts";
import type { RunFile } from "../embedded/runFile.ts";
import { browsableUrl } from "../program/browsableUrl.ts";
import { openDatabase } from "../program/openDatabase.ts";
import { readStripeOptions } from "../program/readStripeOptions.ts";
import { StartupError } from "../program/startupError.ts";
import { openTemporalClient } from "../program/temporalClient.ts";
import { createBilling } from "../providers/billing/createBilling.ts";
import type { Billing } from "../providers/billing/createBilling.ts";
import { createStripeInspector } from "../providers/billing/stripe/inspectStripe.ts";
import type { StripeInspector } from "../providers/billing/stripe/inspectStripe.ts";

/** One for a long transfer, some for what is asked meanwhile. */
const POOL_SIZE = 4;

/** What the commands talk to. Each part is opened when it is first asked for, so that help needs nothing. */
export type Connections = {
  /** @throws ConfigError when a setting is malformed */
  readonly config: () => Config;
  /** The `npm start` of this data folder, null when none runs. */
  readonly running: () => Promise<RunFile | null>;
  /** Where the standalone interface is, as far as the settings and a running `npm start` tell. */
  readonly publicBaseUrl: () => Promise<string>;
  /** @throws StartupError when there is neither a setting nor a running `npm start` */
  readonly databaseUrl: () => Promise<string>;
  /** @throws StartupError when the database cannot be reached, SchemaMismatchError when it is not this release's */
  readonly database: () => Promise<DatabasePool>;
  readonly billing: () => Promise<Billing>;
  /** Null without Stripe's key. */
  readonly stripe: () => StripeInspector | null;
  /** Not connected yet: every call needs a limit. */
  readonly temporal: () => Promise<Client>;
  readonly close: () => Promise<void>;
};

const once = <Result>(open: () => Result): (() => Result) => {
  let opened: { readonly result: Result } | null = null;
  return () => {
    opened ??= { result: open() };
    return opened.result;
  };
};

const nothingRuns = (config: Config, setting: string): StartupError =>
  new StartupError(
    `Nothing to connect to: ${setting} is not set and no \`npm start\` is running with the data folder ${resolve(config.DATA_DIR)}. ` +
      `Start one with \`npm start\`, name its folder with DATA_DIR, or set ${setting}.`,
  );

/** Settings that are given win; what they leave open is the running `npm start`'s. */
export const createConnections = (readConfig: () => Config): Connections => {
  const closing: (() => Promise<unknown>)[] = [];
  const config = once(readConfig);
  const running = once(() => readRunFile(config().DATA_DIR));

  const publicBaseUrl = once(async () => {
    const { PUBLIC_BASE_URL, DATABASE_URL, HOST, PORT } = config();
    const started = DATABASE_URL === undefined ? await running() : null;
    return PUBLIC_BASE_URL ?? browsableUrl(started?.apiUrl ?? `http://${HOST}:${PORT}`);
  });

  const databaseUrl = once(async () => {
    const url = config().DATABASE_URL ?? (await running())?.databaseUrl;
    if (url === undefined) {
      throw nothingRuns(config(), "DATABASE_URL");
    }
    return url;
  });

  const database = once(async () => {
    const db = await openDatabase({
      DATABASE_URL: await databaseUrl(),
      DATABASE_POOL_SIZE: POOL_SIZE,
    });
    closing.push(() => db.end());
    return db;
  });

  const billing = once(async () => {
    return createBilling({ db: await database(), stripe: readStripeOptions(config()) });
  });

  const stripe = once(() => {
    const options = readStripeOptions(config());
    return options && createStripeInspector(options);
  });

  const openTemporal = async (): Promise<Client> => {
    const { TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, DATABASE_URL } = config();
    if (TEMPORAL_ADDRESS !== undefined) {
      return openTemporalClient({ address: TEMPORAL_ADDRESS, namespace: TEMPORAL_NAMESPACE });
    }
    const started = await running();
    if (started) {
      return openTemporalClient({
        address: started.temporalAddress,
        namespace: started.temporalNamespace,
      });
    }
    if (DATABASE_URL === undefined) {
      throw nothingRuns(config(), "TEMPORAL_ADDRESS");
    }
    // As the API and the worker do with these settings: Temporal's own configuration and its defaults.
    return openTemporalClient();
  };

  const temporal = once(async () => {
    const client = await openTemporal();
    closing.push(() => client.connection.close());
    return client;
  });

  return {
    config,
    running,
    publicBaseUrl,
    databaseUrl,
    database,
    billing,
    stripe,
    temporal,
    close: async () => {
      await Promise.all(closing.map((close) => close()));
    },
  };
};
