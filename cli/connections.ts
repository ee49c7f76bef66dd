import { resolve } from "node:path";
import type { Client } from "@temporalio/client";
import type { Config } from "../runtime/config/config.ts";
import { deploymentNameOf } from "../modules/billing/deployment.rules.ts";
import type { LiveProcessor } from "../modules/billing/deployment.rules.ts";
import { readRunFile } from "../runtime/runFile.ts";
import type { RunFile } from "../runtime/runFile.ts";
import { browsableUrl } from "../runtime/loopback.rules.ts";
import { StartupError } from "../runtime/errors.rules.ts";
import { loadStripe } from "../modules/billing/loadStripe.ts";

/** One for a long transfer, the others for concurrent queries. */
const POOL_SIZE = 4;

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

const openTemporal = async (
  config: Config,
  running: () => Promise<RunFile | null>,
): Promise<Client> => {
  const { openTemporalClient } = await import("../runtime/temporalClient.ts");
  const { TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, DATABASE_URL } = config;
  if (TEMPORAL_ADDRESS !== undefined) {
    return openTemporalClient({ address: TEMPORAL_ADDRESS, namespace: TEMPORAL_NAMESPACE });
  }
  const started = await running();
  if (started) {
    const { temporalAddress: address, temporalNamespace: namespace } = started;
    return openTemporalClient({ address, namespace });
  }
  if (DATABASE_URL === undefined) {
    throw notRunningError(config, "TEMPORAL_ADDRESS");
  }
  // Temporal's own configuration and defaults, as for the API and the worker.
  return openTemporalClient();
};

/** Finds the addresses in the settings and, for those that are not set, in a running `npm start`. */
const findAddresses = (config: () => Config) => {
  /** The `npm start` that runs with the data folder and, if DATABASE_URL is set, with that database; or null. */
  const running = once(async () => {
    const { DATA_DIR, DATABASE_URL } = config();
    const found = await readRunFile(DATA_DIR);
    return found && (DATABASE_URL ?? found.databaseUrl) === found.databaseUrl ? found : null;
  });
  /** Its addresses, unless DATABASE_URL says that the database is elsewhere. */
  const source = () => (config().DATABASE_URL === undefined ? running() : null);

  const publicBaseUrl = async (): Promise<string> => {
    const { PUBLIC_BASE_URL, HOST, PORT } = config();
    return PUBLIC_BASE_URL ?? browsableUrl((await source())?.apiUrl ?? `http://${HOST}:${PORT}`);
  };

  /** Throws a StartupError if there is neither a setting nor a running `npm start`. */
  const databaseUrl = async (): Promise<string> => {
    const url = config().DATABASE_URL ?? (await running())?.databaseUrl;
    if (url === undefined) {
      throw notRunningError(config(), "DATABASE_URL");
    }
    return url;
  };

  /** The URLs that a migration needs: the owner's, and that of the role that receives its privileges. */
  const databaseRoles = async () => {
    const appUrl = await databaseUrl();
    const ownerUrl = config().DATABASE_OWNER_URL ?? (await source())?.databaseOwnerUrl ?? appUrl;
    return { ownerUrl, appUrl };
  };

  return { running, publicBaseUrl, databaseUrl, databaseRoles };
};

/**
 * Creates the connections of commands from the settings and, for those that are not set, from a running `npm start`. Each is
 * loaded and opened on first use, so that a command takes CPU only for its own.
 */
export const createConnections = (readConfig: () => Config) => {
  const closing: (() => Promise<unknown>)[] = [];
  /** Throws a ConfigError if a setting is malformed. */
  const config = once(readConfig);

  const addresses = findAddresses(config);

  /** Throws a StartupError if it cannot be reached, and a SchemaError if its schema is of another release. */
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

  /** The database for a command that reads or writes much, and yields to what clients record. */
  const bulkDatabase = once(async () => {
    const { createBulkPool } = await import("../db/createBulkPool.ts");
    return createBulkPool(await database());
  });

  /** Null if STRIPE_SECRET_KEY is not set. */
  const stripe = once(() => loadStripe(config()));

  const billing = once(async () => {
    const { createBilling } = await import("../modules/billing/createBilling.ts");
    return createBilling({ db: await database(), stripe: await stripe() });
  });

  /** Returns who bills live usage by the settings of this program. */
  const configured = async (): Promise<LiveProcessor> => {
    const open = await stripe();
    return open ? { name: "stripe", account: await open.readAccount() } : { name: "ledger" };
  };

  /** Connects on the first call; call it with `callTemporal`. */
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
    billing,
    stripe,
    configured,
    temporal,
    close: async (): Promise<void> => {
      await Promise.all(closing.map((close) => close()));
    },
  };
};

export type Connections = ReturnType<typeof createConnections>;
