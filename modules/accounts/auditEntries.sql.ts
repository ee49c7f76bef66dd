import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { ACTORS, withSnakeCaseNames } from "./audit.rules.ts";
import type { Actor, AuditAction } from "./audit.rules.ts";
import { allOf, columnsOf, safeInteger, inRange, sql, timestamp } from "../../db/sql.ts";
import { newestOf } from "../records/ownedRecords.sql.ts";

const auditEntryRow = z.strictObject({
  id: safeInteger,
  createdAt: z.date(),
  // Not an enum: entries of earlier releases may have actions that this one no longer has.
  action: z.string(),
  actor: z.enum(ACTORS),
  operator: z.string().nullable(),
  accountId: z.uuid().nullable(),
  subject: z.string().nullable(),
  reason: z.string().nullable(),
  details: z.record(z.string(), z.unknown()),
});
export type AuditEntry = Readonly<z.output<typeof auditEntryRow>>;

export type Action = {
  readonly action: AuditAction;
  /** Null or undefined for what concerns the whole deployment. */
  readonly accountId?: string | null;
  /** The id of what was changed, if it is not the account itself. */
  readonly subject?: string | null;
  /** What else support needs to know. No personal data of customers: entries cannot be changed. */
  readonly details?: Readonly<Record<string, unknown>>;
};

export const insertAuditEntry = async (
  db: CommonQueryMethods,
  actor: Actor,
  { action, accountId = null, subject = null, details = {} }: Action,
  createdAt: Date,
) => {
  const { name: operator, reason } =
    actor.kind === "operator" ? actor : { name: null, reason: null };
  await db.query(sql.typeAlias("void")`
    INSERT INTO audit_entry (created_at, action, actor, operator, account_id, subject, reason, details)
    VALUES (
      ${timestamp(createdAt)}, ${action}, ${actor.kind}, ${operator}, ${accountId}, ${subject}, ${reason},
      ${JSON.stringify(details, withSnakeCaseNames)}::jsonb
    )
  `);
};

const platformRequestRow = z.strictObject({
  /** Null if no such request was processed. */
  firstProcessedAt: z.date().nullable(),
  reinstalledSince: z.boolean(),
});

/** Returns when a platform's request to an account was first processed, and whether the store was reinstalled since. */
export const readPlatformRequest = (db: CommonQueryMethods, accountId: string, signature: string) =>
  db.one(sql.type(platformRequestRow)`
    SELECT
      min(created_at) AS "firstProcessedAt",
      coalesce(
        min(id) < (
          SELECT max(id) FROM audit_entry WHERE account_id = ${accountId} AND action = 'store.reinstall'
        ),
        false
      ) AS "reinstalledSince"
    FROM audit_entry
    WHERE account_id = ${accountId} AND actor = 'platform' AND details ->> 'signature' = ${signature}
  `);

type AuditFilter = {
  readonly accountId?: string | null;
  /** An action, such as `key.issue`, or a group of actions, such as `key`. */
  readonly action?: string | undefined;
  readonly operator?: string | undefined;
  readonly since?: Date | undefined;
  /** Exclusive. */
  readonly until?: Date | undefined;
  /** Only entries with a lower id. */
  readonly before?: number | undefined;
};

export const listAuditEntries = (
  db: CommonQueryMethods,
  { accountId = null, action, operator, since, until, before }: AuditFilter,
  limit: number,
) => {
  const newest = newestOf(accountId, before === undefined ? null : String(before));
  return db.any(sql.type(auditEntryRow)`
    SELECT ${columnsOf("audit_entry", auditEntryRow)}
    FROM audit_entry
    WHERE ${allOf(
      newest.condition,
      action && sql.fragment`(action = ${action} OR starts_with(action, ${`${action}.`}))`,
      operator && sql.fragment`operator = ${operator}`,
      ...inRange(sql.fragment`created_at`, { from: since, until }),
    )}
    ${newest.order}
    LIMIT ${limit}
  `);
};
