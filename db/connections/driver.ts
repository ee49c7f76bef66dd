import { createPgDriverFactory } from "@slonik/pg-driver";
import { Client } from "pg";
import { BackendTerminatedError } from "slonik";
import type { Driver, DriverClient, DriverConfiguration, DriverFactory } from "slonik";
import { withTimeout } from "../../runtime/waiting.ts";
import { behindPooler, inspectPooler } from "./pooler.ts";
import { createPlanRenewal } from "./renewPlans.ts";
import { connectTimeoutOf, requireWritable } from "./databaseServers.ts";
import type { DatabaseServers, Server } from "./databaseServers.ts";

/** PostgreSQL's code for a write in a session that accepts none. */
const READ_ONLY = "25006";

const isReadOnly = (error: Error): boolean => "code" in error && error.code === READ_ONLY;

const withResponseTimeout = (client: DriverClient, responseTimeoutMs: number): DriverClient => {
  let lost: BackendTerminatedError | null = null;
  return {
    ...client,
    query: async (text, values, options) => {
      // The ROLLBACK of a transaction would only wait for another timeout.
      if (lost) {
        throw lost;
      }
      const timeout = Promise.withResolvers<never>();
      const timer = setTimeout(() => {
        lost = new BackendTerminatedError(
          new Error(`The database has not responded for ${responseTimeoutMs} ms.`),
        );
        timeout.reject(lost);
        // The response to the abandoned statement may still arrive, so the connection must not be reused.
        client.destroy().catch(() => undefined);
      }, responseTimeoutMs);
      try {
        return await Promise.race([client.query(text, values, options), timeout.promise]);
      } catch (error) {
        // The server became a standby without closing its connections; the next one is to another server.
        if (error instanceof Error && isReadOnly(error)) {
          lost = new BackendTerminatedError(error);
          client.destroy().catch(() => undefined);
        }
        throw error;
      } finally {
        clearTimeout(timer);
      }
    },
  };
};

/** @throws ReadOnlyServerError */
const requireWritableConnection = async (client: DriverClient): Promise<void> => {
  client.acquire();
  try {
    const { rows } = await client.query("SHOW transaction_read_only");
    requireWritable(rows[0]?.["transaction_read_only"]);
    await client.release();
  } catch (error) {
    // Not awaited, because a vanished server does not confirm the end, and the next server can be tried.
    client.destroy().catch(() => undefined);
    throw error;
  }
};

/**
 * Creates the library's driver, which first reads the types over a client without a listener for errors: the loss of that
 * connection would end the program. The client connects before the library's function returns, and gets its listener then.
 */
const createLibraryDriver: DriverFactory = (options) => {
  // oxlint-disable-next-line typescript/unbound-method -- it is only called with the client that it was called on.
  const { connect: original } = Client.prototype;
  Client.prototype.connect = new Proxy(original, {
    apply: (connect, client: Client, parameters) => {
      // The query reports the loss.
      client.on("error", () => undefined);
      return Reflect.apply(connect, client, parameters);
    },
  });
  try {
    return createPgDriverFactory()(options);
  } finally {
    Client.prototype.connect = original;
  }
};

type ServerDriver = {
  readonly driver: Driver;
  /** Adapts a client to the pooler before the server, if there is one. */
  readonly adapt: (client: DriverClient) => DriverClient;
};
type Timeout = DriverConfiguration["statementTimeout"];

/** PostgreSQL's 0 is no limit. */
const inMs = (timeout: Timeout): number => (timeout === "DISABLE_TIMEOUT" ? 0 : timeout);

/**
 * Creates the driver of our pools, which limits how long each statement may take on this side. A server that vanishes
 * without closing its connections (its machine fails, a firewall drops the packets) takes its `statement_timeout` with
 * it, and TCP does not notify a client that only waits.
 * @param servers each connection is to the first of them that can be used
 * @param responseTimeoutMs must be longer than any statement may take; after it the connection is destroyed
 */
export const createDriver =
  (servers: DatabaseServers, responseTimeoutMs: number): DriverFactory =>
  async ({ driverConfiguration }) => {
    const { connectionTimeout, statementTimeout, idleInTransactionSessionTimeout } =
      driverConfiguration;
    const limits = {
      statementTimeoutMs: inMs(statementTimeout),
      idleInTransactionTimeoutMs: inMs(idleInTransactionSessionTimeout),
    };
    const connectTimeout =
      connectionTimeout === "DISABLE_TIMEOUT"
        ? connectionTimeout
        : connectTimeoutOf(servers, connectionTimeout);
    // The check belongs to connecting: a server that vanishes before its response is passed over as quickly.
    const checkTimeoutMs = inMs(connectTimeout) || responseTimeoutMs;
    const inspectionTimeoutMs = inMs(connectTimeout) + responseTimeoutMs;
    const drivers = new WeakMap<Server, Promise<ServerDriver>>();
    /** The library's driver supports one server. It connects once to read the types that the pool parses. */
    const createServerDriver = async (server: Server): Promise<ServerDriver> => {
      const { tls, config } = server;
      const pooler = await inspectPooler({
        ...config,
        connectionTimeoutMillis: inMs(connectTimeout),
      });
      const driver = await createLibraryDriver({
        driverConfiguration: {
          ...driverConfiguration,
          connectionUri: server.dsn,
          ...(tls === undefined ? {} : { ssl: tls }),
          connectionTimeout: connectTimeout,
          // A pooler refuses or ignores start-up parameters.
          ...(pooler && {
            statementTimeout: "DISABLE_TIMEOUT",
            idleInTransactionSessionTimeout: "DISABLE_TIMEOUT",
          }),
        },
      });
      return { driver, adapt: pooler ? behindPooler(pooler, limits) : (client) => client };
    };
    /**
     * Connections that are opened at the same time share the driver: a server that was just promoted gets all of them. So a
     * server that vanishes during the inspection, which would then wait for it without a limit, must not block them all.
     */
    const openDriver = (server: Server): Promise<ServerDriver> => {
      const known = drivers.get(server);
      if (known) {
        return known;
      }
      const opened = withTimeout(
        AbortSignal.timeout(inspectionTimeoutMs),
        createServerDriver(server),
      );
      drivers.set(server, opened);
      // The next connection tries again.
      opened.catch(() => drivers.delete(server));
      return opened;
    };
    await servers.open(openDriver);
    const renewPlans = createPlanRenewal();
    return {
      createClient: () =>
        servers.open(async (server) => {
          const { driver, adapt } = await openDriver(server);
          const client = await driver.createClient();
          if (servers.mustAcceptWrites) {
            await requireWritableConnection(withResponseTimeout(client, checkTimeoutMs));
          }
          return renewPlans(adapt(withResponseTimeout(client, responseTimeoutMs)));
        }),
    };
  };
