import type { Client } from "pg";
import type { Connected } from "./connections/connectClient.ts";
import type { Migration } from "./readMigrations.ts";

/** How a migration waits for locks that other sessions hold. */
export type LockWaits = {
  /** How long a statement waits. Every session that needs the table waits behind it. */
  readonly lockTimeoutMs: number;
  /** How long the others may work before the next attempt. */
  readonly pauseMs: number;
  readonly maximumAttempts: number;
  /** How long to wait for another migrator. */
  readonly migratorTimeoutMs: number;
  /** Called before each pause. */
  readonly onWait: (message: string) => void;
};

/** Clients wait at most a second at a time. Two minutes cover most transactions; an operator should check what blocks for longer. */
export const LOCK_WAITS: LockWaits = {
  lockTimeoutMs: 1000,
  pauseMs: 3000,
  maximumAttempts: 30,
  migratorTimeoutMs: 10 * 60_000,
  onWait: () => undefined,
};

/** A migration was given up because another session holds a lock that it needs; nothing was changed. */
export class MigrationBlockedError extends Error {
  override readonly name = "MigrationBlockedError";
}

/** PostgreSQL's codes for a lock timeout and a deadlock. */
const LOCK_CODES: ReadonlySet<unknown> = new Set(["55P03", "40P01"]);

const isLockError = (error: unknown): boolean =>
  error instanceof Error && "code" in error && LOCK_CODES.has(error.code);

/** The operator who migrates, for the audit log; null if none is recorded. */
export type Migrator = {
  readonly kind: "operator";
  readonly name: string;
  readonly reason: string | null;
} | null;

/** Records in the migration's transaction that it was applied, and by whom. The first migration creates the audit log. */
const record = async (
  client: Client,
  { number, name, runsWith, checksum }: Migration,
  migrator: Migrator,
): Promise<void> => {
  await client.query(
    "INSERT INTO schema_migration (number, name, runs_with, checksum) VALUES ($1, $2, $3, $4)",
    [number, name, runsWith, checksum],
  );
  if (migrator) {
    await client.query(
      `
        INSERT INTO audit_entry (created_at, action, actor, operator, reason, details)
        VALUES (now(), 'migrate', $1, $2, $3, $4)
      `,
      [migrator.kind, migrator.name, migrator.reason, { applied: [name] }],
    );
  }
};

const runTransaction = async (
  client: Client,
  migration: Migration,
  migrator: Migrator,
  lockTimeoutMs: number,
): Promise<void> => {
  await client.query("BEGIN");
  try {
    await client.query(`SET LOCAL lock_timeout = ${lockTimeoutMs}`);
    await client.query(migration.text);
    await record(client, migration, migrator);
    await client.query("COMMIT");
  } catch (error) {
    // It fails only on a lost connection, whose transaction the server rolls back.
    await client.query("ROLLBACK").catch(() => undefined);
    throw error;
  }
};

/**
 * Applies a migration. If it does not get a lock in time, it is rolled back and tried again later, so that it never holds
 * up the clients of a table for longer.
 * @throws MigrationBlockedError if no attempt gets its locks
 */
export const applyMigration = async (
  { client, pause }: Pick<Connected, "client" | "pause">,
  migration: Migration,
  migrator: Migrator,
  { lockTimeoutMs, pauseMs, maximumAttempts, onWait }: LockWaits,
): Promise<void> => {
  const { name } = migration;
  for (let attempt = 1; ; attempt += 1) {
    try {
      await runTransaction(client, migration, migrator, lockTimeoutMs);
      return;
    } catch (error) {
      if (!isLockError(error)) {
        throw new Error(`Migration ${name} failed and was rolled back.`, { cause: error });
      }
      if (attempt === maximumAttempts) {
        throw new MigrationBlockedError(
          `Migration ${name} was rolled back, because other sessions hold a lock that it needs. ` +
            "Find them with: SELECT pid, usename, state, xact_start, query FROM pg_stat_activity WHERE xact_start < now() - interval '1 minute' ORDER BY xact_start; end them or wait, then run the migration again",
          { cause: error },
        );
      }
      onWait(
        `Migration ${name} waits for a lock that other sessions hold (attempt ${attempt} of ${maximumAttempts}).`,
      );
      await pause(pauseMs);
    }
  }
};
