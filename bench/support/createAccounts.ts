import { openPool } from "../../db/pools/pool.ts";
import { insertAccount, updateAccount } from "../../modules/accounts/accounts.sql.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { systemClock } from "../../runtime/clock.ts";
import { issueKey } from "../../modules/accounts/manageKeys.ts";

/** Creates organizations with the given ids and returns one production key for each, in the same order. */
export const createAccounts = async (
  databaseUrl: string,
  ids: readonly string[],
  stripeCustomerIds: readonly string[] = [],
): Promise<readonly string[]> => {
  const db = await openPool(databaseUrl);
  try {
    return await db.transaction(async (transaction) => {
      const keys: string[] = [];
      for (const [index, id] of ids.entries()) {
        const account = { id, type: "organization", name: `Benchmark ${id}` } as const;
        await insertAccount(transaction, { ...account, createdAt: systemClock.now() });
        await updateAccount(transaction, id, {
          stripeCustomerId: stripeCustomerIds[index] ?? null,
        });
        const { key } = await issueKey(
          { db: transaction, clock: systemClock, actor: SERVICE },
          account,
          "live",
        );
        keys.push(key);
      }
      return keys;
    });
  } finally {
    await db.end();
  }
};

export const accountIds = (count: number): readonly string[] =>
  Array.from({ length: count }, () => crypto.randomUUID());
