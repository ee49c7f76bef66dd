import { hasAccounts } from "../modules/accounts/accounts.sql.ts";
import { openPool } from "../db/pools/pool.ts";
import { SERVICE } from "../modules/accounts/audit.rules.ts";
import { systemClock } from "../runtime/clock.ts";
import { createOrganization } from "../modules/accounts/createOrganization.ts";

/**
 * Creates a demo organization in an empty database.
 * @returns null if there are accounts already
 */
export const createDemoOrganization = async (
  databaseUrl: string,
): Promise<Awaited<ReturnType<typeof createOrganization>> | null> => {
  const db = await openPool(databaseUrl, 2);
  try {
    if (await hasAccounts(db)) {
      return null;
    }
    return await createOrganization(
      { db, clock: systemClock, actor: SERVICE },
      {
        name: "Demo organization",
        fractionalCounting: false,
        billingDay: 1,
        stripeCustomerId: null,
        stripeSubscriptionId: null,
      },
    );
  } finally {
    await db.end();
  }
};
