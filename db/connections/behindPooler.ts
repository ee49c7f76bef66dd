import type { DriverClient } from "slonik";
import type { Pooler } from "./inspectPooler.ts";

/** What a pool limits in each of its sessions. */
export type SessionLimits = {
  readonly statementTimeoutMs: number;
  readonly idleInTransactionTimeoutMs: number;
};

const BEGINS: ReadonlySet<string> = new Set(["BEGIN", "START TRANSACTION"]);
const ENDS: ReadonlySet<string> = new Set(["COMMIT", "ROLLBACK"]);

const isWithin = (settingMs: number, limitMs: number): boolean =>
  settingMs > 0 && settingMs <= limitMs;

/**
 * Returns a client that keeps nothing in its session, which the pooler may change after each transaction. Unless the role
 * or the database has limits that suffice, each transaction sets its own, and a single statement becomes a transaction.
 */
export const behindPooler = (
  client: DriverClient,
  pooler: Pooler,
  limits: SessionLimits,
): DriverClient => {
  const query: DriverClient["query"] = (text, values, options) =>
    client.query(text, values, pooler.keepsPreparedStatements ? options : undefined);
  if (
    isWithin(pooler.statementTimeoutMs, limits.statementTimeoutMs) &&
    isWithin(pooler.idleInTransactionTimeoutMs, limits.idleInTransactionTimeoutMs)
  ) {
    return { ...client, query };
  }
  const begin: DriverClient["query"] = async (text) => {
    const result = await client.query(text);
    await client.query(
      "SELECT set_config('statement_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $2, true)",
      [String(limits.statementTimeoutMs), String(limits.idleInTransactionTimeoutMs)],
    );
    return result;
  };
  let isInTransaction = false;
  return {
    ...client,
    query: async (text, values, options) => {
      const command = text.trim();
      if (BEGINS.has(command)) {
        isInTransaction = true;
        return begin(command);
      }
      if (ENDS.has(command)) {
        isInTransaction = false;
        return query(text, values, options);
      }
      if (isInTransaction) {
        return query(text, values, options);
      }
      await begin("BEGIN");
      try {
        const result = await query(text, values, options);
        await client.query("COMMIT");
        return result;
      } catch (error) {
        // The first error says why; a connection that cannot roll back is destroyed with it.
        await client.query("ROLLBACK").catch(() => undefined);
        throw error;
      }
    },
  };
};
