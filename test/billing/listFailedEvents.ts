import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";

/** Lists the failed events of an account, oldest first. */
export const listFailedEvents = (
  db: DatabasePool,
  { accountId }: { readonly accountId: string },
): Promise<readonly bigint[]> =>
  db.anyFirst(sql.type(z.strictObject({ id: z.bigint() }))`
    SELECT id FROM meter_event WHERE state = 'failed' AND account_id = ${accountId} ORDER BY id
  `);
