import type { DatabasePool } from "slonik";
import { sql } from "../../../db/sql.ts";
import { createTestOrganization } from "../../support/factories.ts";

/** Creates an organization with a registration of November 2023 that the ledger has billed, and returns its id. */
export const createOldUsage = async (db: DatabasePool): Promise<string> => {
  const { id: accountId } = await createTestOrganization(db);
  await db.query(sql.typeAlias("void")`
    WITH registered AS (
      INSERT INTO registration (id, account_id, mode, kind, count, created_at, usage_batch)
      VALUES (gen_random_uuid(), ${accountId}, 'live', 'tree', 3, to_timestamp(1700000000), nextval('usage_batch'))
      RETURNING usage_batch
    ),
    delivered AS (
      INSERT INTO meter_event
        (account_id, mode, kind, second, sequence, quantity, identifier, processor, state, sealed_at, settled_at)
      VALUES
        (${accountId}, 'live', 'tree', 1700000000, 1, 3, ${accountId}, 'ledger', 'delivered', '2023-11-15', '2023-11-15')
      RETURNING id
    )
    INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, second, meter_event_id)
    SELECT ${accountId}, 'live', 'tree', registered.usage_batch, 3, 1700000000, delivered.id
    FROM registered CROSS JOIN delivered
  `);
  return accountId;
};
