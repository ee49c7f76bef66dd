import { AsyncLocalStorage } from "node:async_hooks";
import type { ExecutionContext } from "ava";
import type { CommonQueryMethods, DatabasePool, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { openClient, openTestPool } from "./database.ts";
import { eventually } from "./programs.ts";

/** Lists the server processes that wait for a lock of this transaction, or behind one another for it. */
export const listBlocked = (transaction: DatabaseTransactionConnection) =>
  transaction.anyFirst(sql.type(z.strictObject({ pid: z.bigint() }))`
    WITH RECURSIVE
      waiting AS MATERIALIZED (
        SELECT DISTINCT pid, pg_blocking_pids(pid) AS blockers
        FROM pg_locks
        WHERE NOT granted
      ),
      blocked AS (
        SELECT pid FROM waiting WHERE pg_backend_pid() = ANY(blockers)
        UNION
        SELECT waiting.pid FROM waiting JOIN blocked ON blocked.pid = ANY(waiting.blockers)
      )
    SELECT pid::bigint FROM blocked
  `);

/** Tables have the same numbers in other databases that were created from the template. */
const WAITING = `
  FROM pg_locks
  WHERE NOT granted
    AND relation = $1::regclass
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
`;

export type TableLock = Awaited<ReturnType<typeof lockTable>>;

/** Locks a table in a separate session until the lock is released or the test ends. */
export const lockTable = async (
  t: ExecutionContext,
  databaseUrl: string,
  table: string,
  mode = "ACCESS EXCLUSIVE",
) => {
  const client = await openClient(t, databaseUrl);
  await client.query(`BEGIN; LOCK TABLE ${table} IN ${mode} MODE`);
  return {
    countWaiting: async (): Promise<number> =>
      (await client.query(`SELECT ${WAITING}`, [table])).rows.length,
    /** Cancels the statements that wait for the table. Returns their number. */
    cancelWaiting: async (): Promise<number> =>
      (await client.query(`SELECT pg_cancel_backend(pid) ${WAITING}`, [table])).rows.length,
    release: async (): Promise<void> => {
      await client.query("ROLLBACK");
    },
  };
};

/** Locks the rows of a table that have an id in a column, until the test ends. Returns a function that releases them. */
export const lockRows = async (
  t: ExecutionContext,
  databaseUrl: string,
  table: string,
  column: string,
  id: string,
): Promise<() => Promise<unknown>> => {
  const client = await openClient(t, databaseUrl);
  await client.query("BEGIN");
  await client.query(`SELECT FROM ${table} WHERE ${column} = $1 FOR UPDATE`, [id]);
  return () => client.query("ROLLBACK");
};

/** Waits until another process waits for a lock of this transaction. Returns those that do. */
export const awaitBlocked = async (transaction: DatabaseTransactionConnection) => {
  let pids: readonly bigint[] = [];
  await eventually(async () => {
    pids = await listBlocked(transaction);
    return pids.length > 0;
  });
  return pids;
};

/**
 * Waits until work has ended, or processes wait for a lock of this transaction. Its connection is free afterwards.
 * @param count how many processes must wait
 * @returns whether the work has ended
 */
export const endsOrBlocks = async (
  transaction: DatabaseTransactionConnection,
  work: Promise<unknown>,
  count = 1,
): Promise<boolean> => {
  let hasEnded = false;
  const end = (): void => {
    hasEnded = true;
  };
  work.then(end, end);
  await eventually(async () => hasEnded || (await listBlocked(transaction)).length >= count);
  return hasEnded;
};

/** Does work in other connections while a transaction is open that has done something, such as locking rows. */
export const whileOpen = async <Result>(
  db: DatabasePool,
  begin: (transaction: DatabaseTransactionConnection) => Promise<unknown>,
  work: (transaction: DatabaseTransactionConnection) => Promise<Result>,
): Promise<Result> => {
  // Slonik rejects other connections within a transaction.
  const outside = AsyncLocalStorage.snapshot();
  return db.transaction(async (transaction) => {
    await begin(transaction);
    return outside(work, transaction);
  });
};

/**
 * Starts work while a transaction holds locks: each part once those before it wait for them, so they get the locks in this
 * order.
 */
export const runBehindLocks = async <Work extends readonly unknown[]>(
  db: DatabasePool,
  lock: (transaction: DatabaseTransactionConnection) => Promise<unknown>,
  ...starts: { readonly [Index in keyof Work]: () => Promise<Work[Index]> }
): Promise<Work> => {
  const { work } = await whileOpen(db, lock, async (transaction) => {
    const started: Promise<unknown>[] = [];
    for (const start of starts) {
      const begun = start();
      started.push(begun);
      // Work that fails would never wait.
      await endsOrBlocks(transaction, begun, started.length);
    }
    return { work: Promise.all(started) };
  });
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- in the order of `starts`.
  return (await work) as unknown as Work;
};

/** PostgreSQL's code for a transaction that was aborted to end a deadlock. */
const DEADLOCK = "40P01";

/** Opens a pool that notes the deadlocks of its statements. Slonik runs their transactions again, so results hide them. */
export const openDeadlockPool = async (t: ExecutionContext, databaseUrl: string) => {
  const deadlocks: string[] = [];
  const db = await openTestPool(t, databaseUrl, undefined, {
    interceptors: [
      {
        name: "note-deadlocks",
        queryExecutionError: (_context, query, error) => {
          if ("code" in error && error.code === DEADLOCK) {
            deadlocks.push(query.sql);
          }
          return null;
        },
      },
    ],
  });
  return { db, deadlocks };
};

/** Waits until server processes have ended, as they do some time after their client was killed. */
export const awaitGone = (db: CommonQueryMethods, pids: readonly bigint[]): Promise<void> =>
  eventually(
    async () =>
      !(await db.exists(sql.typeAlias("void")`
        SELECT FROM pg_stat_activity WHERE pid = ANY(${sql.array(pids, "int8")})
      `)),
  );
