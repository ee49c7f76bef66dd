import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { Owner } from "../records/owner.rules.ts";
import { ownerColumns } from "../records/columns.sql.ts";
import { safeInteger, afterLookup, sql, timestamp } from "../../db/sql.ts";
import { deleteTestKeys } from "../records/idempotencyKeys.sql.ts";
import { deleteCertificatesOf } from "../records/ownedRecords.sql.ts";

const ownerRow = z.strictObject(ownerColumns);

/** Lists the accounts that have ever registered something in test mode. */
export const listTestOwners = (db: CommonQueryMethods): Promise<readonly Owner[]> =>
  db.any(sql.type(ownerRow)`
    SELECT account_id AS "accountId", mode, kind
    FROM impact_total
    WHERE mode = 'test' AND period = 'all'
    ORDER BY account_id, kind
  `);

/** A half-open span of time. */
export type Span = { readonly from: Date; readonly until: Date };

const boundsRow = z.strictObject({ first: z.date().nullable(), last: z.date().nullable() });

/**
 * Returns the times of an owner's first registration in a span and of the one with this number, counted from 0; null
 * where there is none.
 */
export const findBounds = (
  db: CommonQueryMethods,
  { accountId, mode, kind }: Owner,
  { from, until }: Span,
  number: number,
): Promise<{ readonly first: Date | null; readonly last: Date | null }> => {
  const timeAt = (offset: number) => sql.fragment`(
    SELECT created_at
    FROM registration
    WHERE account_id = ${accountId} AND mode = ${mode} AND kind = ${kind}
      AND created_at >= ${timestamp(from)} AND created_at < ${timestamp(until)}
    ORDER BY created_at, id
    OFFSET ${offset}
    LIMIT 1
  )`;
  return db.one(sql.type(boundsRow)`SELECT ${timeAt(0)} AS first, ${timeAt(number)} AS last`);
};

const lockedRow = z.strictObject({
  id: z.uuid(),
  createdAt: z.date(),
  /** Units that are not refunded. */
  remaining: safeInteger,
});
type OldRegistration = Readonly<z.output<typeof lockedRow>>;

const allRow = z.strictObject({ all: z.int() });

/**
 * Locks an owner's registrations of a span.
 * @returns null if another transaction has locked one of them
 */
export const lockOldRegistrations = async (
  transaction: DatabaseTransactionConnection,
  { accountId, mode, kind }: Owner,
  { from, until }: Span,
): Promise<readonly OldRegistration[] | null> => {
  const ofSpan = sql.fragment`
    account_id = ${accountId} AND mode = ${mode} AND kind = ${kind}
      AND created_at >= ${timestamp(from)} AND created_at < ${timestamp(until)}
  `;
  const locked = await transaction.any(sql.type(lockedRow)`
    SELECT id, created_at AS "createdAt", count - refunded_count AS remaining
    FROM registration
    WHERE ${ofSpan}
    ORDER BY created_at, id
    FOR UPDATE SKIP LOCKED
  `);
  const all = await transaction.oneFirst(sql.type(allRow)`
    SELECT count(*)::integer AS all FROM registration WHERE ${ofSpan}
  `);
  return locked.length === all ? locked : null;
};

const idRow = z.strictObject({ id: z.uuid() });

/** Lists those of the registrations that have a refund whose workflow was not started yet. */
export const listWithWaitingRefund = (
  transaction: DatabaseTransactionConnection,
  ids: readonly string[],
): Promise<readonly string[]> =>
  transaction.anyFirst(sql.type(idRow)`
    SELECT DISTINCT registration_id AS id
    FROM refund
    WHERE registration_id = ANY(${sql.array(ids, "uuid")})
      AND ${afterLookup(sql.fragment`dispatched_at IS NULL`)}
  `);

/** Deletes registrations of test mode with their certificates, refunds and idempotency keys. Nothing else may refer to them. */
export const deleteRegistrations = async (
  transaction: DatabaseTransactionConnection,
  ids: readonly string[],
): Promise<void> => {
  const ofRegistrations = sql.fragment`registration_id = ANY(${sql.array(ids, "uuid")})`;
  await deleteCertificatesOf(transaction, ids);
  const refundIds = await transaction.anyFirst(sql.type(idRow)`
    DELETE FROM refund WHERE ${ofRegistrations} RETURNING id
  `);
  await deleteTestKeys(transaction, [...ids, ...refundIds]);
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM registration WHERE id = ANY(${sql.array(ids, "uuid")})
  `);
};
