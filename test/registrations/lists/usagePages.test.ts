import type { DatabasePool } from "slonik";
import { unhurriedPace } from "../../../db/createBulkPace.ts";
import { sql } from "../../../db/sql.ts";
import type { UsageReportState } from "../../../modules/billing/billingStatus.rules.ts";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import { listUsageReports } from "../../../modules/registrations/readUsageReports.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../../support/countPages.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";

const test = testWithDatabase();

const TABLES = ["registration", "usage_fact"];
const PENDING = 5000;
const NOT_BILLED = 5;
const LIMIT = 20;

test("a page of usage in a state reads few registrations if many are in it, and hardly more than the list if few are", async (t) => {
  const { filler, db } = await openSinglePools(t);
  const { id: accountId } = await createTestOrganization(db);
  await stopAutovacuum(filler, TABLES);
  await filler.query(sql.typeAlias("void")`
    WITH registration AS (
      INSERT INTO registration (id, account_id, mode, kind, count, created_at, usage_batch)
      SELECT
        gen_random_uuid(), ${accountId}, 'live', 'tree', 1, '2026-11-01'::timestamptz - number * interval '1 second',
        CASE WHEN number <= ${PENDING}::integer THEN nextval('usage_batch') END
      FROM generate_series(1, ${PENDING + NOT_BILLED}::integer) AS number
      RETURNING *
    )
    INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, second)
    SELECT account_id, mode, kind, usage_batch, 1, extract(epoch FROM created_at)::bigint
    FROM registration
    WHERE usage_batch IS NOT NULL
  `);
  await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE)`);

  let found = 0;
  /** Reads until it is known whether records follow those of the page, as the API does. */
  const read =
    (state: UsageReportState | null, limit: number | null) =>
    async (single: DatabasePool): Promise<void> => {
      found = 0;
      const billing = createBilling({ db: single, stripe: null });
      const deps = { db: single, billing, pace: unhurriedPace };
      const part = { kinds: ["tree"], from: null, until: null, startingAfter: null } as const;
      const owner = { accountId, mode: "live" } as const;
      for await (const { rows } of listUsageReports(deps, owner, { ...part, state, limit })) {
        found += [...rows].length;
        if (limit !== null && found > limit) {
          break;
        }
      }
    };
  const countPages = await createPageCounter(filler, db, TABLES);

  const ofAll = await countPages(read(null, LIMIT));
  t.is(found, LIMIT + 1);
  const ofPending = await countPages(read("pending", LIMIT));
  t.true(found > LIMIT);
  t.true(ofPending < 2 * ofAll, `${ofPending} pages, and ${ofAll} whatever the state`);

  const ofNotBilled = await countPages(read("not_billed", LIMIT));
  t.is(found, NOT_BILLED);
  const ofList = await countPages(read("not_billed", null));
  t.is(found, NOT_BILLED);
  t.true(ofNotBilled < 1.05 * ofList, `${ofNotBilled} pages, and ${ofList} of the whole list`);
});
