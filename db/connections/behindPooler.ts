import type { DriverClient } from "slonik";
import { areWithin } from "./inspectPooler.ts";
import type { Pooler, SessionLimits } from "./inspectPooler.ts";

const BEGINS: ReadonlySet<string> = new Set(["BEGIN", "START TRANSACTION"]);
const ENDS: ReadonlySet<string> = new Set(["COMMIT", "ROLLBACK"]);

/** PostgreSQL's codes for a named statement that does not exist, or that another session has prepared on the connection. */
const NOT_KEPT: ReadonlySet<unknown> = new Set(["26000", "42P05"]);
/** Its code, among others, for a statement whose result has another type than when it was prepared. */
const NOT_SUPPORTED = "0A000";

/** A statement that failed because of its name, so nothing was done. It is not given the name again. */
class LostStatementError extends Error {
  override readonly name = "LostStatementError";
  /** Of class 40, transaction rollback: slonik repeats the transaction, or the single statement. */
  readonly code = "40000";
}

/**
 * Returns a wrapper of a pool's clients, so that they store nothing in their sessions, which the pooler may change after
 * each transaction. Unless the role or the database has limits that suffice, each transaction sets its own, and a single
 * statement becomes a transaction.
 *
 * Named statements are used until the pooler no longer keeps them, because an operator turned that off or because another
 * pooler has taken over. A statement that a migration invalidated stays on the pooler's connections, whatever its clients
 * do, so that one is executed without its name from then on.
 */
export const behindPooler = (
  pooler: Pooler,
  limits: SessionLimits,
): ((client: DriverClient) => DriverClient) => {
  let { keepsPreparedStatements } = pooler;
  const invalidNames = new Set<string>();

  const withNames =
    (client: DriverClient): DriverClient["query"] =>
    async (text, values, options) => {
      const name = options?.name;
      if (name === undefined || !keepsPreparedStatements || invalidNames.has(name)) {
        return client.query(text, values);
      }
      try {
        return await client.query(text, values, options);
      } catch (error) {
        if (!(error instanceof Error && "code" in error)) {
          throw error;
        }
        if (NOT_KEPT.has(error.code)) {
          keepsPreparedStatements = false;
        } else if (error.code === NOT_SUPPORTED) {
          invalidNames.add(name);
        } else {
          throw error;
        }
        throw new LostStatementError(error.message, { cause: error });
      }
    };

  const withLimits = (
    client: DriverClient,
    query: DriverClient["query"],
  ): DriverClient["query"] => {
    const begin: DriverClient["query"] = async (text) => {
      const result = await client.query(text);
      await client.query(
        "SELECT set_config('statement_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $2, true)",
        [String(limits.statementTimeoutMs), String(limits.idleInTransactionTimeoutMs)],
      );
      return result;
    };
    let isInTransaction = false;
    return async (text, values, options) => {
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
        // The first error says why. A connection that cannot roll back is not used again, whatever its error was.
        await client.query("ROLLBACK").catch(() => client.destroy().catch(() => undefined));
        throw error;
      }
    };
  };

  return (client) => {
    const query = withNames(client);
    return {
      ...client,
      query: areWithin(pooler, limits) ? query : withLimits(client, query),
    };
  };
};
