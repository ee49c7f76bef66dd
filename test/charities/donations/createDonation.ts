import type { DatabasePool } from "slonik";
import { sql } from "../../../db/sql.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { insertDonationTotals } from "./insertDonationTotals.ts";

/** Stores a donation of $25 by a new organization and returns its id. */
export const createDonation = async (db: DatabasePool): Promise<string> => {
  const { id: accountId } = await createTestOrganization(db);
  const id = crypto.randomUUID();
  await db.query(sql.typeAlias("void")`
    INSERT INTO donation (id, account_id, mode, amount_cents, nonprofit_id, charity_provider, charity_name, created_at)
    VALUES (${id}, ${accountId}, 'live', 2500, 'n1', 'catalogue', 'Sea', now())
  `);
  await insertDonationTotals(db, accountId);
  return id;
};
