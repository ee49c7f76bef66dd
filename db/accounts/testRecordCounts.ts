import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { safeInteger } from "../columns.ts";
import { sql } from "../sql.ts";

/** How many records an account's test keys have stored. */
export type TestRecordCount = { readonly accountId: string; readonly count: number };

const accountCountRow = z.strictObject({ accountId: z.uuid(), count: safeInteger });

/** Adds to the counts of accounts and returns the new ones. */
export const addToTestRecordCounts = (
  db: CommonQueryMethods,
  added: readonly TestRecordCount[],
): Promise<readonly TestRecordCount[]> =>
  db.any(sql.type(accountCountRow)`
    INSERT INTO test_record_count (account_id, count)
    SELECT account_id, count
    FROM json_to_recordset(${JSON.stringify(
      added.map(({ accountId, count }) => ({ account_id: accountId, count })),
    )}) AS added (account_id uuid, count bigint)
    -- A failover may have lost an account, whose records would keep those of the others from being stored.
    CROSS JOIN LATERAL (SELECT FROM account WHERE id = added.account_id OFFSET 0) AS present
    ORDER BY account_id
    ON CONFLICT (account_id) DO UPDATE
    SET count = test_record_count.count + excluded.count
    RETURNING account_id AS "accountId", count
  `);

/** Returns the counts of accounts, by account; accounts without test records have none. */
export const listTestRecordCounts = async (
  db: CommonQueryMethods,
  accountIds: readonly string[],
): Promise<ReadonlyMap<string, number>> => {
  const counts = await db.any(sql.type(accountCountRow)`
    SELECT account_id AS "accountId", count
    FROM test_record_count
    WHERE account_id = ANY(${sql.array([...accountIds], "uuid")})
  `);
  return new Map(counts.map(({ accountId, count }) => [accountId, count]));
};

const accountIdRow = z.strictObject({ accountId: z.uuid() });

/** Lists the accounts whose test keys have stored records. */
export const listCountedAccounts = (db: CommonQueryMethods): Promise<readonly string[]> =>
  db.anyFirst(sql.type(accountIdRow)`
    SELECT account_id AS "accountId" FROM test_record_count ORDER BY account_id
  `);

/** Recounts an account's test records: its registrations, their refunds, and its donations. */
export const recountTestRecords = async (
  db: CommonQueryMethods,
  accountId: string,
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE test_record_count
    SET count =
      (SELECT count(*) FROM registration WHERE account_id = ${accountId} AND mode = 'test')
      + (
        SELECT count(*)
        FROM refund
        JOIN registration ON registration.id = refund.registration_id
        WHERE registration.account_id = ${accountId} AND registration.mode = 'test'
      )
      + (SELECT count(*) FROM donation WHERE account_id = ${accountId} AND mode = 'test')
    WHERE account_id = ${accountId}
  `);
};

const countRow = z.strictObject({ count: safeInteger });

/** Returns how many records an account's test keys have stored, as far as API processes have counted them. */
export const readTestRecordCount = (db: CommonQueryMethods, accountId: string): Promise<number> =>
  db.oneFirst(sql.type(countRow)`
    SELECT coalesce((SELECT count FROM test_record_count WHERE account_id = ${accountId}), 0) AS count
  `);
