import { Socket } from "node:net";
import { escapeLiteral, Pool } from "pg";
import { to } from "pg-copy-streams";
import type { FragmentSqlToken } from "slonik";

/**
 * Connections for answers that are passed on as PostgreSQL wrote them. The driver makes strings of whatever a query
 * answers, and V8 lets those of a long list pile up; COPY hands the bytes over.
 */
export type CopyPool = {
  /**
   * Answers a query's one row as bytes, in pieces, nothing where it has none.
   * @param query whose columns hold no control characters; they come separated by `COLUMN_END`
   */
  readonly copy: (query: FragmentSqlToken) => Promise<readonly Buffer[]>;
  readonly end: () => Promise<void>;
};

/** What ends a column; never part of a JSON text, which escapes it. */
export const COLUMN_END = "\u0002";

/** Several long lists share these: one page takes milliseconds, and no connection is held between two. */
const MAXIMUM_CONNECTIONS = 3;

/** COPY takes no parameters. */
const withValues = ({ sql, values }: FragmentSqlToken): string =>
  sql.replaceAll(/\$slonik_(?<number>\d+)/gu, (_placeholder, number: string) => {
    const value = values[Number(number) - 1];
    if (typeof value !== "string" && typeof value !== "number") {
      throw new TypeError(`COPY is given a value of type ${typeof value}.`);
    }
    return escapeLiteral(String(value));
  });

const STATEMENT_TIMEOUT_MS = 60_000;
/** Longer than a statement may take before its first row. */
const SILENCE_MS = STATEMENT_TIMEOUT_MS + 5000;

/** A server that vanishes without closing its connections ends no statement: the silence does. */
const openSocket = (silenceMs: number): Socket => {
  const socket = new Socket();
  return socket.setTimeout(silenceMs, () => {
    socket.destroy(new Error(`The database has sent nothing for ${silenceMs} ms.`));
  });
};

/**
 * Opens a pool that connects when there is something to copy.
 * @param silenceMs after so long without a byte the database counts as gone; an answer may take longer as long as it
 *   comes in
 */
export const openCopyPool = (url: string, silenceMs = SILENCE_MS): CopyPool => {
  const pool = new Pool({
    connectionString: url,
    max: MAXIMUM_CONNECTIONS,
    connectionTimeoutMillis: 15_000,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    stream: () => openSocket(silenceMs),
  });
  // Who copies is told of a broken connection by the copy; the pool forgets one that breaks while nobody uses it.
  pool.on("error", () => undefined);
  pool.on("connect", (client) => client.on("error", () => undefined));
  return {
    copy: async (query) => {
      const client = await pool.connect();
      try {
        // CSV writes values without control characters as they are, where the usual format doubles each backslash.
        const answer = client.query(
          to(
            `COPY (${withValues(query)}) TO STDOUT (FORMAT csv, DELIMITER E'\\x02', QUOTE E'\\x01')`,
          ),
        );
        const pieces: Buffer[] = [];
        for await (const piece of answer as AsyncIterable<Buffer>) {
          pieces.push(piece);
        }
        client.release();
        // Without the row's end.
        const last = pieces.pop();
        return last ? [...pieces, last.subarray(0, -1)] : [];
      } catch (error) {
        client.release(true);
        throw error;
      }
    },
    end: () => pool.end(),
  };
};
