import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { DonationRequest } from "../../domain/charities/donations.ts";
import { modeColumn } from "../columns.ts";
import { sql } from "../sql.ts";

const commonDetails = {
  amountCents: z.int(),
  charityName: z.string().nullable(),
  attribution: z.string(),
  metadata: z.record(z.string(), z.unknown()),
};

const detailsJson = z.union([
  z.strictObject({ ...commonDetails, ein: z.string(), nonprofitId: z.null() }),
  z.strictObject({ ...commonDetails, ein: z.string().nullable(), nonprofitId: z.string() }),
]);

const requestRow = z.strictObject({
  accountId: z.uuid(),
  mode: modeColumn,
  idempotencyKey: z.string().nullable(),
  details: detailsJson,
});

const columns = sql.fragment`
  account_id AS "accountId",
  mode,
  idempotency_key AS "idempotencyKey",
  details
`;

const toRequest = ({ details, ...rest }: z.output<typeof requestRow>): DonationRequest => ({
  ...rest,
  ...details,
});

/**
 * Keeps a request under its id until it is decided upon.
 * @returns false when another one with its idempotency key is waiting
 */
export const insertDonationRequest = async (
  db: CommonQueryMethods,
  id: string,
  { accountId, mode, idempotencyKey, ...details }: DonationRequest,
): Promise<boolean> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    INSERT INTO donation_request (id, account_id, mode, idempotency_key, details, created_at)
    VALUES (
      ${id}, ${accountId}, ${mode}, ${idempotencyKey}, ${JSON.stringify(details)}::jsonb, now()
    )
    ON CONFLICT (account_id, mode, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
  `);
  return rowCount === 1;
};

export const findDonationRequest = async (
  db: CommonQueryMethods,
  id: string,
): Promise<DonationRequest | null> => {
  const row = await db.maybeOne(sql.type(requestRow)`
    SELECT ${columns}
    FROM donation_request
    WHERE id = ${id}
  `);
  return row && toRequest(row);
};

/** The id under which a request with an idempotency key is waiting. */
export const findWaitingRequestId = (
  db: CommonQueryMethods,
  { accountId, mode }: Pick<DonationRequest, "accountId" | "mode">,
  idempotencyKey: string,
): Promise<string | null> =>
  db.maybeOneFirst(sql.type(z.strictObject({ id: z.uuid() }))`
    SELECT id
    FROM donation_request
    WHERE account_id = ${accountId} AND mode = ${mode} AND idempotency_key = ${idempotencyKey}
  `);

/** Takes a request to decide upon it: it is gone when the transaction ends, and nobody else takes it meanwhile. */
export const takeDonationRequest = async (
  transaction: DatabaseTransactionConnection,
  id: string,
): Promise<DonationRequest | null> => {
  const row = await transaction.maybeOne(sql.type(requestRow)`
    DELETE FROM donation_request
    WHERE id = ${id}
    RETURNING ${columns}
  `);
  return row && toRequest(row);
};

/** @returns false when it was decided upon already */
export const deleteDonationRequest = async (
  db: CommonQueryMethods,
  id: string,
): Promise<boolean> => {
  const { rowCount } = await db.query(sql.typeAlias("void")`
    DELETE FROM donation_request
    WHERE id = ${id}
  `);
  return rowCount === 1;
};

/** Forgets requests of more than a day ago: nobody waits for them, since the process that took them died. */
export const deleteAbandonedRequests = async (db: CommonQueryMethods): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    DELETE FROM donation_request
    WHERE created_at < now() - interval '1 day'
  `);
};
