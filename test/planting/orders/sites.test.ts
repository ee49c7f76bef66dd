import type { CommonQueryMethods, DatabasePool } from "slonik";
import { z } from "zod";
import { sql, timestamp } from "../../../db/sql.ts";
import { createSummaryReader } from "../../../modules/planting/createSummaryReader.ts";
import type { PlantingFactOf } from "../../../modules/planting/fact.rules.ts";
import type { PlantingOrder } from "../../../modules/planting/order.rules.ts";
import {
  simulateAllocated,
  simulatePlanted,
  simulateVerified,
} from "../../../modules/planting/simulated/simulatedFacts.ts";
import { listLatestMedia } from "../../../modules/planting/sites.sql.ts";
import { readSummary } from "../../../modules/planting/summary.sql.ts";
import { countReads } from "../../support/countReads.ts";
import { copyDatabase, openTestPool, testWithDatabase } from "../../support/database.ts";
import { openOwnDatabase } from "../evidence/evidenceApi.ts";
import { placeOrders } from "../setUpPlanting.ts";

const test = testWithDatabase();

const AT = new Date("2026-05-01T10:00:00.000Z");

/** Reads the regions of the summary of live trees. */
const readRegions = async (db: DatabasePool) =>
  (await readSummary(db, { mode: "live", isSimulated: false })).regions;

/** Allocates an order's trees to sites, which are named by their references. */
const allocatedTo = (
  order: PlantingOrder,
  sites: readonly string[],
): PlantingFactOf<"allocated"> => {
  const fact = simulateAllocated(order, AT);
  const [allocation] = fact.allocations;
  if (!allocation) {
    throw new Error("There is an allocation.");
  }
  const { planting_site: site } = allocation;
  return {
    ...fact,
    allocations: sites.map((name) => {
      const reference = `${order.publicId}/${name}`;
      return { ...allocation, reference, planting_site: { ...site, reference: name, name } };
    }),
  };
};

test.serial("photos of a verification belong to the site that was verified", async (t) => {
  const { setup, order, report } = await placeOrders(t.context.db);
  const verified = simulateVerified(order, AT);
  const site = { ...verified.planting_site, reference: "south", name: "south" };

  await report(
    allocatedTo(order, ["north", "south"]),
    { ...simulatePlanted(order, AT), media: [] },
    { ...verified, planting_site: site, photos: ["https://photos.example/south.jpg"] },
  );

  t.like(await listLatestMedia(t.context.db, setup.organization.id, 6, false), {
    length: 1,
    0: {
      url: "https://photos.example/south.jpg",
      siteName: "south",
      isOfVerification: true,
      trees: 10,
    },
  });
});

/** Corrects facts of orders that name one site, and reads under which name the site is shown. */
const nameSite = async (db: DatabasePool, reference: string) => {
  const { setup, placed } = await placeOrders(db, 3);
  const orders = placed.map(({ order, report, withdraw, reinstate }) => ({
    withdraw,
    reinstate,
    reportAllocated: (name: string) => {
      const fact = simulateAllocated(order, AT);
      const [allocation] = allocatedTo(order, [reference]).allocations;
      const site = allocation && { ...allocation.planting_site, name, region: name };
      const allocations = allocation && site ? [{ ...allocation, planting_site: site }] : [];
      return report({ ...fact, allocations });
    },
    reportPlanted: () => report(simulatePlanted(order, AT)),
    reportVerified: (name: string) => {
      const fact = simulateVerified(order, AT);
      return report({ ...fact, planting_site: { ...fact.planting_site, reference, name } });
    },
  }));
  const [first, second, third] = orders;
  if (!first || !second || !third) {
    throw new Error("There are three orders.");
  }
  return {
    setup,
    orders: [first, second, third] as const,
    name: () =>
      db.oneFirst(sql.type(z.strictObject({ name: z.string() }))`
        SELECT name
        FROM planting_site
        WHERE partner = 'manual' AND reference = ${reference}
      `),
  };
};

test.serial("correcting an older order keeps the later details of its site", async (t) => {
  const { orders, name } = await nameSite(t.context.db, "kept");
  const [older, later] = orders;
  await older.reportAllocated("Old Bay");
  await older.reportVerified("Old Bay");
  await later.reportAllocated("New Bay");

  await older.withdraw("planted_and_verified");
  t.is(await name(), "New Bay");
  await older.withdraw("allocated");
  await older.reinstate("allocated");
  t.is(await name(), "New Bay");
});

test.serial("a withdrawn fact leaves its site with the latest details of another", async (t) => {
  const { orders, name } = await nameSite(t.context.db, "restored");
  const [first, second, third] = orders;
  await first.reportAllocated("First Bay");
  await second.reportAllocated("Second Bay");
  await third.reportAllocated("Second Bay");
  await first.reportVerified("Wrong Bay");

  await first.withdraw("planted_and_verified");
  t.is(await name(), "Second Bay");
  await third.withdraw("allocated");
  t.is(await name(), "Second Bay");
  await second.withdraw("allocated");
  t.is(await name(), "First Bay");
  await second.reinstate("allocated");
  t.is(await name(), "Second Bay");
  await first.withdraw("allocated");
  await second.withdraw("allocated");
  t.is(await name(), "Second Bay", "no fact in effect has other details");
  await third.reportAllocated("Third Bay");
  t.is(await name(), "Third Bay");
});

test.serial(
  "a correction of an order without planted trees changes the summary of the others at its site",
  async (t) => {
    const { setup, orders } = await nameSite(await openOwnDatabase(t), "summarized");
    const [planted, allocated] = orders;
    const regions = async () =>
      (await createSummaryReader(setup.deps)("live")).regions.map(({ region }) => region);
    await planted.reportAllocated("Right Bay");
    await planted.reportPlanted();
    await allocated.reportAllocated("Wrong Bay");
    t.deepEqual(await regions(), ["Wrong Bay"]);

    await allocated.withdraw("allocated");
    t.deepEqual(await regions(), ["Right Bay"]);
    await allocated.reinstate("allocated");
    t.deepEqual(await regions(), ["Wrong Bay"]);
  },
);

test.serial(
  "a region is one in the summary, whether its accents are combining characters or not",
  async (t) => {
    const db = await openOwnDatabase(t);
    const { order, report } = await placeOrders(db);
    const fact = allocatedTo(order, ["NFC", "NFD"]);
    const allocations = fact.allocations.map((allocation) => ({
      ...allocation,
      planting_site: {
        ...allocation.planting_site,
        region: "Príncipe".normalize(allocation.planting_site.reference),
        country: "São Tomé".normalize(allocation.planting_site.reference),
      },
    }));

    await report({ ...fact, allocations }, simulatePlanted(order, AT));

    t.deepEqual(
      (await readRegions(db)).map(({ region, country }) => [region, country]),
      [["Príncipe", "São Tomé"]],
    );
  },
);

/** Inserts two facts of each of some orders at another site. The statistics do not know them. */
const insertFactsOfOthers = async (db: CommonQueryMethods, accountId: string, orders: number) => {
  await db.query(sql.typeAlias("void")`
    WITH placed AS (
      INSERT INTO planting_order
        (public_id, account_id, mode, partner, partner_name, buyer_name, timeline, tree_count, created_at)
      SELECT 'others-' || number, ${accountId}, 'live', 'manual', '', '', 'sessions', 1, ${timestamp(AT)}
      FROM generate_series(1, ${orders}) AS number
      RETURNING id
    )
    INSERT INTO planting_fact
      (order_id, stage, state, source, occurred_at, content, digest, site_ids, received_at)
    SELECT
      id, stage, 'accepted', 'operator', ${timestamp(AT)}, '{}', sha256(id::text::bytea), ARRAY[0], ${timestamp(AT)}
    FROM placed
    CROSS JOIN unnest(ARRAY['allocated', 'planted_and_verified']) AS stage
  `);
};

test.serial("restoring a site reads the facts of few others, however many follow", async (t) => {
  const db = await openTestPool(t, await copyDatabase(t), 1);
  const { setup, orders, name } = await nameSite(db, "shared");
  const [first, last] = orders;
  await first.reportAllocated("Right Bay");
  await insertFactsOfOthers(db, setup.organization.id, 10_000);
  await last.reportAllocated("Wrong Bay");

  const { rows } = await countReads(db, ["planting_order", "planting_fact"], () =>
    last.withdraw("allocated"),
  );

  t.true(rows < 200, `${rows} rows`);
  t.is(await name(), "Right Bay");
});
