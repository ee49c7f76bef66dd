import type { DatabasePool } from "slonik";
import { listDonations } from "../../../modules/charities/donations.sql.ts";
import { sql } from "../../../db/sql.ts";
import type { DonationFilter } from "../../../modules/charities/donations.rules.ts";
import { readDonationPage } from "../../../modules/charities/readDonationPage.ts";
import { createPageCounter, openSinglePools, stopAutovacuum } from "../../support/countPages.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { insertDonationTotals } from "./insertDonationTotals.ts";

const test = testWithDatabase();

const TABLES = ["donation", "donation_total"];

/** Inserts donations, one every `hours`, and their totals. Some are refunded, all of January's included. */
const insertDonations = async (
  filler: DatabasePool,
  accountId: string,
  {
    count,
    hours,
    refundedOneOf,
  }: { readonly count: number; readonly hours: number; readonly refundedOneOf: number },
): Promise<void> => {
  await filler.query(sql.typeAlias("void")`
    INSERT INTO donation (
      id, account_id, mode, amount_cents, nonprofit_id, charity_provider, charity_name, created_at, refunded
    )
    SELECT
      gen_random_uuid(), ${accountId}, 'live', 100, 'charity', 'catalogue', 'Charity', created_at,
      number % ${refundedOneOf}::integer = 0 OR (created_at AT TIME ZONE 'UTC')::date < '2026-02-01'
    FROM generate_series(0, ${count - 1}::integer) AS number
    -- Ten of each time.
    CROSS JOIN LATERAL (
      SELECT '2026-01-20T00:00:00Z'::timestamptz + number / 10 * 10 * ${hours}::double precision * interval '1 hour' AS created_at
    ) AS recorded
  `);
  await insertDonationTotals(filler, accountId);
};

test.serial(
  "the pages of a list are the list, whatever its dates and however many are refunded",
  async (t) => {
    const { db, owner: filler } = t.context;
    const { id: accountId } = await createTestOrganization(db);
    await insertDonations(filler, accountId, { count: 600, hours: 6, refundedOneOf: 50 });
    const owner = { accountId, mode: "live" } as const;
    const [february, march, middle] = [
      new Date("2026-02-01T00:00:00Z"),
      new Date("2026-03-01T00:00:00Z"),
      new Date("2026-04-12T00:00:00Z"),
    ];
    const filters: readonly DonationFilter[] = [
      {},
      { from: february },
      { from: february, until: march },
      { from: middle },
      { until: middle },
      { from: middle, until: new Date("2026-04-20T00:00:00Z") },
      { from: new Date("2026-02-10T00:00:00Z"), until: middle },
      { from: march, until: february },
      { from: new Date("2027-01-01T00:00:00Z") },
      { attribution: "" },
    ];
    for (const filter of filters) {
      const all = await listDonations(db, owner, filter, { offset: 0, limit: 1000 });
      const pages = [];
      for (let offset = 0; offset <= all.length; offset += 35) {
        const page = await readDonationPage(db, owner, filter, { offset, limit: 35 });
        t.is(page.totalItems, all.length, JSON.stringify(filter));
        pages.push(page.donations);
      }
      t.deepEqual(pages.flat(), all, JSON.stringify(filter));
    }
  },
);

/** In 20 months, with 300 pages of index entries and 500 of donations. */
const DONATIONS = 20_000;
const MAXIMUM_PAGES = 200;

test.serial("the last page of a long list is read without later months' donations", async (t) => {
  const { filler, db } = await openSinglePools(t);
  const { id: accountId } = await createTestOrganization(db);
  const owner = { accountId, mode: "live" } as const;
  await stopAutovacuum(filler, TABLES);
  await insertDonations(filler, accountId, {
    count: DONATIONS,
    hours: 0.75,
    refundedOneOf: 1000,
  });
  await filler.query(sql.typeAlias("void")`VACUUM (ANALYZE)`);
  const countPages = await createPageCounter(filler, db, TABLES);
  const january = { from: new Date("2026-01-01T00:00:00Z") };
  for (const filter of [{}, january]) {
    for (const offset of [0, DONATIONS / 2, DONATIONS - 20]) {
      const pages = await countPages((single) =>
        readDonationPage(single, owner, filter, { offset, limit: 20 }),
      );
      t.true(pages > 0 && pages <= MAXIMUM_PAGES, `after ${offset} donations: ${pages} pages`);
    }
  }
});
