import { resolve } from "node:path";
import type { Client } from "@temporalio/client";
import type { DatabasePool } from "slonik";
import type { Config } from "../runtime/config/config.ts";
import type { BulkPace } from "../db/createBulkPace.ts";
import { deploymentNameOf } from "../modules/billing/deployment.rules.ts";
import { readRunFile } from "../runtime/runFile.ts";
import type { RunFile } from "../runtime/runFile.ts";
import { browsableUrl } from "../runtime/loopback.rules.ts";
import { StartupError } from "../runtime/errors.rules.ts";
import { loadStripe, loadStripeInspector } from "../modules/billing/loadStripe.ts";
import type { Billing } from "../modules/billing/createBilling.ts";
import type { StripeInspector } from "../modules/billing/stripe/inspectStripe.ts";

/** One for a long transfer, the others for concurrent queries. */
const POOL_SIZE = 4;

/** The services that commands use. Each is loaded and opened on first use, so that a command takes CPU only for its own. */
export type Connections = {
  /** @throws ConfigError if a setting is malformed */
  readonly config: () => Config;
  /** The `npm start` that runs with the data folder and, if DATABASE_URL is set, with that database; or null. */
  readonly running: () => Promise<RunFile | null>;
  /** The `npm start` that runs with the data folder and another database than DATABASE_URL; or null. */
  readonly otherRunning: () => Promise<RunFile | null>;
  /** The base URL of the standalone interface, from the settings or a running `npm start`. */
  readonly publicBaseUrl: () => Promise<string>;
  /** @throws StartupError if there is neither a setting nor a running `npm start` */
  readonly databaseUrl: () => Promise<string>;
  /** The URLs that a migration needs: the owner's, and that of the role that receives its privileges. */
  readonly databaseRoles: () => Promise<{ readonly ownerUrl: string; readonly appUrl: string }>;
  /** @throws StartupError if the database cannot be reached, SchemaMismatchError if its schema is of another release */
  readonly database: () => Promise<DatabasePool>;
  /** The deployment's name in Temporal. */
  readonly deploymentName: () => Promise<string>;
  /** The database for a command that reads or writes much, which yields to what clients record. */
  readonly bulkDatabase: () => Promise<DatabasePool>;
  /** The same for services that choose the sizes of their steps. */
  readonly pace: () => Promise<BulkPace>;
  readonly billing: () => Promise<Billing>;
  /** Null if STRIPE_SECRET_KEY is not set. */
  readonly stripe: () => Promise<StripeInspector | null>;
  /** Connects on the first call; call it with `callTemporal`. */
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

const notRunningError = (config: Config, setting: string): StartupError =>
  new StartupError(
    `${setting} is not set, and no \`npm start\` is running with the data folder ${resolve(config.DATA_DIR)}. ` +
      `Run \`npm start\`, set DATA_DIR to the data folder of a running one, or set ${setting}.`,
  );

type Addresses = Pick<
  Connections,
  "running" | "otherRunning" | "publicBaseUrl" | "databaseUrl" | "databaseRoles"
>;

/** Finds the addresses in the settings and, for those that are not set, in a running `npm start`. */
const createAddresses = (config: () => Config): Addresses => {
  const anyRunning = once(() => readRunFile(config().DATA_DIR));
  const isOurs = ({ databaseUrl: url }: RunFile): boolean => (config().DATABASE_URL ?? url) === url;
  const running = once(async () => {
    const found = await anyRunning();
    return found && isOurs(found) ? found : null;
  });
  const otherRunning = once(async () => {
    const found = await anyRunning();
    return found && !isOurs(found) ? found : null;
  });

  const publicBaseUrl = once(async () => {
    const { PUBLIC_BASE_URL, DATABASE_URL, HOST, PORT } = config();
    const started = DATABASE_URL === undefined ? await running() : null;
    return PUBLIC_BASE_URL ?? browsableUrl(started?.apiUrl ?? `http://${HOST}:${PORT}`);
  });

  const databaseUrl = once(async () => {
    const url = config().DATABASE_URL ?? (await running())?.databaseUrl;
    if (url === undefined) {
      throw notRunningError(config(), "DATABASE_URL");
    }
    return url;
  });

  const databaseRoles = once(async () => {
    const { DATABASE_URL, DATABASE_OWNER_URL } = config();
    const appUrl = await databaseUrl();
    const started = DATABASE_URL === undefined ? await running() : null;
    return {
      ownerUrl: DATABASE_OWNER_URL ?? started?.databaseOwnerUrl ?? appUrl,
      appUrl,
    };
  });

  return { running, otherRunning, publicBaseUrl, databaseUrl, databaseRoles };
};

const openTemporal = async (config: Config, running: Connections["running"]): Promise<Client> => {
  const { openTemporalClient } = await import("../runtime/temporalClient.ts");
  const { TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, DATABASE_URL } = config;
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
    throw notRunningError(config, "TEMPORAL_ADDRESS");
  }
  // Temporal's own configuration and defaults, as for the API and the worker.
  return openTemporalClient();
};

/** Creates connections from the settings and, for those that are not set, from a running `npm start`. */
export const createConnections = (readConfig: () => Config): Connections => {
  const closing: (() => Promise<unknown>)[] = [];
  const config = once(readConfig);
  const addresses = createAddresses(config);

  const database = once(async () => {
    const { openDatabase } = await import("../db/openDatabase.ts");
    const db = await openDatabase({
      DATABASE_URL: await addresses.databaseUrl(),
      DATABASE_POOL_SIZE: POOL_SIZE,
      CELL: config().CELL,
    });
    closing.push(() => db.end());
    return db;
  });

  const deploymentName = once(async () => {
    const { readDeployment } = await import("../modules/billing/deployment.sql.ts");
    return deploymentNameOf(await readDeployment(await database()));
  });

  const pace = once(async () => {
    const { openBulkPace } = await import("../db/createBulkPace.ts");
    return openBulkPace(await database());
  });

  const bulkDatabase = once(async () => {
    const { openBulkPool } = await import("../db/createBulkPace.ts");
    return openBulkPool(await database(), await pace());
  });

  const billing = once(async () => {
    const { createBilling } = await import("../modules/billing/createBilling.ts");
    return createBilling({
      db: await database(),
      stripe: await loadStripe(config()),
    });
  });

  const stripe = once(() => loadStripeInspector(config()));

  const temporal = once(async () => {
    const client = await openTemporal(config(), addresses.running);
    closing.push(() => client.connection.close());
    return client;
  });

  return {
    config,
    ...addresses,
    database,
    deploymentName,
    bulkDatabase,
    pace,
    billing,
    stripe,
    temporal,
    close: async () => {
      await Promise.all(closing.map((close) => close()));
    },
  };
};
