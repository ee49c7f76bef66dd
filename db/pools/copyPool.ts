import { Socket } from "node:net";
import { escapeLiteral, Pool } from "pg";
import type { PoolClient } from "pg";
import { to } from "pg-copy-streams";
import type { FragmentSqlToken } from "slonik";
import { unhurriedPace } from "../createBulkPace.ts";
import type { BulkPace } from "../createBulkPace.ts";
import { requireWritableClient } from "../connections/connectClient.ts";
import { isPooled } from "../connections/inspectPooler.ts";
import { connectTimeoutOf, readDatabaseServers } from "../connections/databaseServers.ts";
import type { DatabaseUrlSource, Server } from "../connections/databaseServers.ts";
import { Gate } from "../../runtime/gate.ts";
import { databaseUnavailable, asQueryTimeout } from "../databaseErrors.ts";

/*
 * What COPY writes in its text format: a line for each row, with tabs between the values.
 */

/** The byte that ends a line. Within a value it is escaped. */
export const LINE_END = 0x0a;

const ESCAPED = /\\(.)/gsu;

const CONTROLS: Readonly<Record<string, string>> = {
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};

const parseValue = (written: string): string | null => {
  if (!written.includes("\\")) {
    return written;
  }
  return written === String.raw`\N`
    ? null
    : written.replaceAll(ESCAPED, (_escape, character: string) => CONTROLS[character] ?? character);
};

/** Returns the values of a line; null is NULL. */
export const splitCopied = (line: string): readonly (string | null)[] =>
  line.split("\t").map(parseValue);

/** Yields the lines. Each is decoded by itself: V8 keeps long strings well after their last use. */
export function* splitLines(lines: Buffer): Generator<string, void, void> {
  let start = 0;
  for (let end = lines.indexOf(LINE_END); end >= 0; end = lines.indexOf(LINE_END, start)) {
    yield lines.toString("utf8", start, end);
    start = end + 1;
  }
}

/**
 * Connections for long lists. An ordinary query creates a string for each value before the first one is used; COPY provides
 * the bytes.
 */
export type CopyPool = {
  /**
   * Returns the rows of a query in COPY's text format.
   * @param owner who waits; owners take turns
   * @param options.isBulk whether it is a part of more, which yields to what clients record
   * @throws DomainError queue_full, query_timeout
   * @throws UnavailableError if no connection can be opened; then nothing was executed
   */
  readonly copy: (
    owner: string,
    query: FragmentSqlToken,
    options?: { readonly isBulk?: boolean },
  ) => Promise<Buffer>;
  /** Whether a page should be small, because lists yield to what clients record. */
  readonly isYielding: () => boolean;
  readonly end: () => Promise<void>;
};

/** Enough for many long lists: a page takes milliseconds, and no connection is held between two pages. */
const MAXIMUM_CONNECTIONS = 3;

/** Inserts the values as literals, since COPY does not accept parameters. */
const withValues = ({ sql, values }: FragmentSqlToken): string =>
  sql.replaceAll(/\$slonik_(?<number>\d+)/gu, (_placeholder, number: string) => {
    const value = values[Number(number) - 1];
    if (value === null) {
      return "NULL";
    }
    if (typeof value !== "string" && typeof value !== "number") {
      throw new TypeError(`COPY does not accept a value of type ${typeof value}.`);
    }
    return escapeLiteral(String(value));
  });

/** For the network round trip. */
const IDLE_MARGIN_MS = 5000;

const CONNECT_TIMEOUT_MS = 15_000;

/** If the server vanishes without closing its connections, the idle timeout ends the statement. */
const openSocket = (idleTimeoutMs: number): Socket => {
  const socket = new Socket();
  return socket.setTimeout(idleTimeoutMs, () => {
    socket.destroy(new Error(`The database has sent nothing for ${idleTimeoutMs} ms.`));
  });
};

const openPool = (
  { config }: Server,
  {
    connectTimeoutMs,
    idleTimeoutMs,
  }: { readonly connectTimeoutMs: number; readonly idleTimeoutMs: number },
): Pool => {
  const pool = new Pool({
    ...config,
    max: MAXIMUM_CONNECTIONS,
    connectionTimeoutMillis: connectTimeoutMs,
    stream: () => openSocket(idleTimeoutMs),
  });
  // A copy reports its own broken connection; the pool discards one that breaks while idle.
  pool.on("error", () => undefined);
  pool.on("connect", (client) => client.on("error", () => undefined));
  return pool;
};

/** Returns what a query's COPY sends. */
const readCopy = async (client: PoolClient, query: FragmentSqlToken): Promise<Buffer> => {
  const result = client.query(to(`COPY (${withValues(query)}) TO STDOUT`));
  const chunks: Buffer[] = [];
  for await (const chunk of result as AsyncIterable<Buffer>) {
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
};

/**
 * Opens a pool that connects when there is something to copy.
 * @param statementTimeoutMs after it the database cancels a statement
 * @param options.idleTimeoutMs the database is considered lost after this time without a byte; a result that keeps arriving
 *   may take longer
 * @param options.pace when results are read
 */
export const openCopyPool = (
  url: DatabaseUrlSource,
  statementTimeoutMs: number,
  {
    idleTimeoutMs = statementTimeoutMs + IDLE_MARGIN_MS,
    pace = unhurriedPace,
  }: {
    readonly idleTimeoutMs?: number;
    readonly pace?: BulkPace;
  } = {},
): CopyPool => {
  const gate = new Gate({ places: MAXIMUM_CONNECTIONS });
  const servers = readDatabaseServers(url);
  const connectTimeoutMs = connectTimeoutOf(servers, CONNECT_TIMEOUT_MS);
  /** The library's pool supports one server. */
  const pools = new Map<Server, Pool>();
  const poolOf = (server: Server): Pool => {
    const pool = pools.get(server) ?? openPool(server, { connectTimeoutMs, idleTimeoutMs });
    pools.set(server, pool);
    return pool;
  };
  const writable = new WeakSet<PoolClient>();
  /** Whether a pooler is between this program and the server, for each connection that was used. */
  const pooled = new WeakMap<PoolClient, boolean>();
  const limit = async (client: PoolClient): Promise<void> => {
    const isBehindPooler = pooled.get(client) ?? (await isPooled(client));
    if (isBehindPooler) {
      await client.query(`BEGIN; SET LOCAL statement_timeout = ${statementTimeoutMs}`);
    } else if (!pooled.has(client)) {
      await client.query(`SET statement_timeout = ${statementTimeoutMs}`);
    }
    pooled.set(client, isBehindPooler);
  };
  const connect = async (server: Server): Promise<PoolClient> => {
    const client = await poolOf(server).connect();
    if (servers.mustAcceptWrites && !writable.has(client)) {
      try {
        await requireWritableClient(client, connectTimeoutMs);
      } catch (error) {
        client.release(true);
        throw error;
      }
      writable.add(client);
    }
    return client;
  };
  const copy = async (query: FragmentSqlToken): Promise<Buffer> => {
    const client = await servers.open(connect).catch((error: unknown) => {
      throw databaseUnavailable(error);
    });
    try {
      await limit(client);
      const copied = await readCopy(client, query);
      if (pooled.get(client) === true) {
        await client.query("COMMIT");
      }
      client.release();
      return copied;
    } catch (error) {
      client.release(true);
      throw asQueryTimeout(error);
    }
  };
  return {
    copy: (owner, query, { isBulk = false } = {}) => {
      const share = () => gate.run(owner, () => copy(query));
      // A list waits for its turn without a connection, so that others are not rejected for having waited too long.
      return isBulk ? pace.run(share) : share();
    },
    isYielding: pace.isYielding,
    end: async () => {
      await Promise.all(Array.from(pools.values(), (pool) => pool.end()));
    },
  };
};
