import { types } from "pg";
import type { Client, ClientConfig } from "pg";
import { BackendTerminatedError, createDriverFactory } from "slonik";
import type { DriverClient, DriverFactory } from "slonik";
import { codeOf } from "../../runtime/errors.rules.ts";
import { isConnectionLost } from "../databaseErrors.ts";
import { createConnect } from "./connect.ts";

/** `int8` is read as a bigint, `timestamptz` as a Date, and `numeric` as text. */
const PARSERS: ReadonlyMap<number, (value: string) => unknown> = new Map(
  [
    { oid: 20, arrayOid: 1016, parse: (value: string): unknown => BigInt(value) },
    { oid: 1184, arrayOid: 1185, parse: (value: string): unknown => new Date(value) },
    { oid: 1700, arrayOid: 1231, parse: (value: string): unknown => value },
  ].flatMap(({ oid, arrayOid, parse }) => [
    [oid, parse],
    [arrayOid, (value: string): unknown => types.arrayParser(value, parse)],
  ]),
);

/** How long a connection keeps its plans. Planning its few statements again takes some milliseconds. */
const RENEWED_AFTER_MS = 5000;
/** The same for a connection that has run as many statements again as before, because new tables grow fastest. */
const RENEWED_EARLY_AFTER_MS = 1000;

/**
 * Returns a connection's way to run statements, which plans prepared statements again now and then. PostgreSQL keeps a plan
 * until it analyzes a table, which autovacuum does once a minute at most. A plan that was made while a table was small reads
 * all of it, also when it has a million rows by then.
 */
const renewingPlans = (run: DriverClient["query"]): DriverClient["query"] => {
  let runs = 0;
  let renewed = { atMs: -Infinity, runs: 0 };
  return async (text, values, options) => {
    if (options?.name !== undefined) {
      runs += 1;
      const ageMs = performance.now() - renewed.atMs;
      const maximumAgeMs = runs >= 2 * renewed.runs ? RENEWED_EARLY_AFTER_MS : RENEWED_AFTER_MS;
      if (ageMs > maximumAgeMs) {
        renewed = { atMs: performance.now(), runs };
        await run("DISCARD PLANS");
      }
    }
    return run(text, values, options);
  };
};

/** The message of pg's error after `query_timeout`; it has no code. */
const NO_RESPONSE = "Query read timeout";

/** PostgreSQL's code for a write in a session that accepts none. */
const READ_ONLY = "25006";

/** Returns slonik's error for a lost connection, which it then closes, and PostgreSQL's own error otherwise. */
const asSlonikError = (error: Error): Error =>
  error.message === NO_RESPONSE || isConnectionLost(error)
    ? new BackendTerminatedError(error)
    : error;

/**
 * Runs a statement. A connection that cannot be used again is destroyed: the response to an abandoned statement may still
 * arrive, and a server that became a standby without closing its connections accepts no further write.
 */
const runStatement = async (
  client: Client,
  ...[text, values = [], { name } = {}]: Parameters<DriverClient["query"]>
): ReturnType<DriverClient["query"]> => {
  try {
    const { command, fields, rowCount, rows } = await client.query<Record<string, unknown>>({
      ...(name === undefined ? {} : { name }),
      text,
      values: [...values],
    });
    return {
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- PostgreSQL's commands, for which pg has the type string.
      command: command as Awaited<ReturnType<DriverClient["query"]>>["command"],
      fields: fields.map((field) => ({ dataTypeId: field.dataTypeID, name: field.name })),
      rowCount,
      rows,
    };
  } catch (error) {
    if (!(error instanceof Error)) {
      throw error;
    }
    if (error.message === NO_RESPONSE || codeOf(error) === READ_ONLY) {
      client.connection.stream.destroy();
    }
    throw asSlonikError(error);
  }
};

/**
 * Creates the driver of a pool, which limits how long each statement may take on this side, too (`query_timeout`). A server
 * that vanishes without closing its connections (its machine fails, a firewall drops the packets) takes its
 * `statement_timeout` with it, and TCP does not notify a client that only waits.
 */
export const createDriver = (
  url: string,
  options: ClientConfig & { readonly connectionTimeoutMillis: number },
): DriverFactory => {
  const connect = createConnect(url);
  const config = {
    ...options,
    // Statements that were sent together would be one transaction. The library's types lack it.
    queryMode: "extended",
    types: {
      // pg asks for texts only.
      getTypeParser: (oid: number): ((value: string) => unknown) =>
        // oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- any type's id may come, not only those of the enum.
        PARSERS.get(oid) ?? types.getTypeParser(oid, "text"),
    },
  };
  return createDriverFactory(() =>
    Promise.resolve({
      createPoolClient: ({ clientEventEmitter }) => {
        let client: Client;
        let isPooled = false;
        return Promise.resolve({
          connect: async () => {
            ({ client, isPooled } = await connect(config));
            client.on("error", (error) => clientEventEmitter.emit("error", asSlonikError(error)));
          },
          end: () => client.end(),
          query: renewingPlans((text, values, named) =>
            runStatement(client, text, values, isPooled ? {} : named),
          ),
          stream: () => {
            throw new Error("Statements are not streamed.");
          },
        });
      },
    }),
  );
};
