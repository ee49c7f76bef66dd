import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { sql, timestamp } from "../../db/sql.ts";

/** Adds the secret that signs from now on. The caller has ended the one before it. */
export const insertSecret = async (
  transaction: DatabaseTransactionConnection,
  endpointId: string,
  secret: string,
  createdAt: Date,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO webhook_secret (endpoint_id, secret, created_at)
    VALUES (${endpointId}, ${secret}, ${timestamp(createdAt)})
  `);
};

/** Returns the query of an endpoint's secrets that sign at a time, newest first. */
export const signingSecrets = (endpointId: FragmentSqlToken, now: Date): FragmentSqlToken =>
  sql.fragment`
    SELECT secret
    FROM webhook_secret
    WHERE endpoint_id = ${endpointId} AND (expires_at IS NULL OR expires_at > ${timestamp(now)})
    ORDER BY expires_at DESC NULLS FIRST, created_at DESC
  `;

const secretRow = z.strictObject({ secret: z.string() });

/** Lists an endpoint's secrets that sign at a time, newest first. */
export const listSecrets = (
  db: CommonQueryMethods,
  endpointId: string,
  now: Date,
): Promise<readonly string[]> =>
  db.anyFirst(sql.type(secretRow)`${signingSecrets(sql.fragment`${endpointId}`, now)}`);

/** Returns the secret of an endpoint that was not replaced. */
export const getCurrentSecret = (
  transaction: DatabaseTransactionConnection,
  endpointId: string,
): Promise<string> =>
  transaction.oneFirst(sql.type(secretRow)`
    SELECT secret
    FROM webhook_secret
    WHERE endpoint_id = ${endpointId} AND expires_at IS NULL
  `);

/** Lets the current secret sign until a time, and deletes those that no longer sign. */
export const endCurrentSecret = async (
  transaction: DatabaseTransactionConnection,
  endpointId: string,
  { now, until }: { readonly now: Date; readonly until: Date },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE webhook_secret
    SET expires_at = ${timestamp(until)}
    WHERE endpoint_id = ${endpointId} AND expires_at IS NULL
  `);
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM webhook_secret
    WHERE endpoint_id = ${endpointId} AND expires_at <= ${timestamp(now)}
  `);
};

export const deleteSecrets = async (
  transaction: DatabaseTransactionConnection,
  endpointId: string,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM webhook_secret
    WHERE endpoint_id = ${endpointId}
  `);
};
