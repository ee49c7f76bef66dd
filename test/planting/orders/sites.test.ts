import type { ExecutionContext } from "ava";
import type { CommonQueryMethods, DatabasePool } from "slonik";
import { z } from "zod";
import {
  evidenceSummary,
  renderEvidenceSummary,
} from "../../../api/endpoints/presentEvidenceSummary.ts";
import { listFacts } from "../../../modules/planting/facts.sql.ts";
import { sql, timestamp } from "../../../db/sql.ts";
import type { PlantingFact } from "../../../modules/planting/fact.rules.ts";
import type { PlantingOrder } from "../../../modules/planting/order.rules.ts";
import {
  simulateAllocated,
  simulatePlanted,
  simulateVerified,
} from "../../../modules/planting/simulated/simulatedFacts.ts";
import { createSummaryReader } from "../../../modules/planting/createSummaryReader.ts";
import { recordPlantingFacts } from "../../../modules/planting/recordPlantingFacts.ts";
import {
  reinstatePlantingFact,
  withdrawPlantingFact,
} from "../../../modules/planting/withdrawPlantingFact.ts";
import { countReads } from "../../support/countReads.ts";
import { copyDatabase, openTestPool, testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { openOwnDatabase } from "../evidence/evidenceApi.ts";
import { setUpPlanting } from "../setUpPlanting.ts";

const test = testWithDatabase();

/** Places orders with the manual partner, and reports facts of them. */
const placeOrders = async (
  t: ExecutionContext<DatabaseContext>,
  count: number,
  db: DatabasePool = t.context.db,
) => {
  const setup = await setUpPlanting(db, { partner: "manual" });
  await setup.order(...Array.from({ length: count }, () => 10));
  await setup.place();
  return {
    setup,
    orders: await setup.orders(),
    report: ({ id }: Pick<PlantingOrder, "id">, ...facts: readonly PlantingFact[]) =>
      recordPlantingFacts(setup.deps, id, facts, "operator"),
  };
};

const AT = new Date("2026-05-01T10:00:00.000Z");

/** Allocates an order's trees to sites, which are named by their references. */
const allocatedTo = (order: PlantingOrder, sites: readonly string[]): PlantingFact => {
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
  const { orders, report } = await placeOrders(t, 1);
  const [order] = orders;
  if (!order) {
    throw new Error("There is an order.");
  }
  const verified = simulateVerified(order, AT);
  const site = { ...verified.planting_site, reference: "south", name: "south" };

  await report(
    order,
    allocatedTo(order, ["north", "south"]),
    { ...simulatePlanted(order, AT), media: [] },
    { ...verified, planting_site: site, photos: ["https://photos.example/south.jpg"] },
  );

  const media = await t.context.db.any(sql.type(
    z.strictObject({ url: z.string(), site: z.string() }),
  )`
    SELECT planting_media.url, planting_site.name AS site
    FROM planting_media
    JOIN planting_site ON planting_site.id = planting_media.site_id
    WHERE planting_media.order_id = ${order.id}
  `);
  t.deepEqual(media, [{ url: "https://photos.example/south.jpg", site: "south" }]);
});

/** Corrects facts of orders that name one site, and reads under which name the site is shown. */
const nameSite = async (
  t: ExecutionContext<DatabaseContext>,
  reference: string,
  db: DatabasePool = t.context.db,
) => {
  const { setup, orders, report } = await placeOrders(t, 3, db);
  const deps = {
    ...setup.deps,
    actor: { kind: "operator", name: "ann", reason: null } as const,
    wakeOrder: () => Promise.resolve(),
  };
  const factOf = async ({ id }: PlantingOrder, stage: PlantingFact["stage"]): Promise<number> =>
    (await listFacts(db, id)).find((fact) => fact.stage === stage)?.id ?? 0;
  return {
    setup,
    orders,
    report: {
      allocated: (order: PlantingOrder, name: string) => {
        const [allocation] = simulateAllocated(order, AT).allocations;
        if (!allocation) {
          throw new Error("There is an allocation.");
        }
        const site = { ...allocation.planting_site, reference, name, region: name };
        return report(order, {
          ...simulateAllocated(order, AT),
          allocations: [{ ...allocation, planting_site: site }],
        });
      },
      planted: (order: PlantingOrder) => report(order, simulatePlanted(order, AT)),
      verified: (order: PlantingOrder, name: string) => {
        const fact = simulateVerified(order, AT);
        return report(order, {
          ...fact,
          planting_site: { ...fact.planting_site, reference, name },
        });
      },
    },
    withdraw: async (order: PlantingOrder, stage: PlantingFact["stage"]) =>
      withdrawPlantingFact(deps, await factOf(order, stage), {
        reason: "wrong",
        replacement: null,
        isDryRun: false,
      }),
    reinstate: async (order: PlantingOrder, stage: PlantingFact["stage"]) =>
      reinstatePlantingFact(deps, await factOf(order, stage), { isDryRun: false }),
    name: () =>
      db.oneFirst(sql.type(z.strictObject({ name: z.string() }))`
        SELECT name
        FROM planting_site
        WHERE partner = 'manual' AND reference = ${reference}
      `),
  };
};

test.serial("correcting an older order keeps the later details of its site", async (t) => {
  const { orders, report, withdraw, reinstate, name } = await nameSite(t, "kept");
  const [older, later] = orders;
  if (!older || !later) {
    throw new Error("There are orders.");
  }
  await report.allocated(older, "Old Bay");
  await report.verified(older, "Old Bay");
  await report.allocated(later, "New Bay");

  await withdraw(older, "planted_and_verified");
  t.is(await name(), "New Bay");
  await withdraw(older, "allocated");
  await reinstate(older, "allocated");
  t.is(await name(), "New Bay");
});

test.serial("a withdrawn fact leaves its site with the latest details of another", async (t) => {
  const { orders, report, withdraw, reinstate, name } = await nameSite(t, "restored");
  const [first, second, third] = orders;
  if (!first || !second || !third) {
    throw new Error("There are orders.");
  }
  await report.allocated(first, "First Bay");
  await report.allocated(second, "Second Bay");
  await report.allocated(third, "Second Bay");
  await report.verified(first, "Wrong Bay");

  await withdraw(first, "planted_and_verified");
  t.is(await name(), "Second Bay");
  await withdraw(third, "allocated");
  t.is(await name(), "Second Bay");
  await withdraw(second, "allocated");
  t.is(await name(), "First Bay");
  await reinstate(second, "allocated");
  t.is(await name(), "Second Bay");
  await withdraw(first, "allocated");
  await withdraw(second, "allocated");
  t.is(await name(), "Second Bay", "no fact in effect has other details");
  await report.allocated(third, "Third Bay");
  t.is(await name(), "Third Bay");
});

test.serial(
  "a correction of an order without planted trees changes the summary of the others at its site",
  async (t) => {
    const { setup, orders, report, withdraw, reinstate } = await nameSite(
      t,
      "summarized",
      await openOwnDatabase(t),
    );
    const [planted, allocated] = orders;
    if (!planted || !allocated) {
      throw new Error("There are orders.");
    }
    const readRegions = async () => {
      const { body } = await createSummaryReader(setup.deps, renderEvidenceSummary)("live");
      return evidenceSummary.parse(JSON.parse(body)).regions.map(({ name }) => name);
    };
    await report.allocated(planted, "Right Bay");
    await report.planted(planted);
    await report.allocated(allocated, "Wrong Bay");
    t.deepEqual(await readRegions(), ["Wrong Bay"]);

    await withdraw(allocated, "allocated");
    t.deepEqual(await readRegions(), ["Right Bay"]);
    await reinstate(allocated, "allocated");
    t.deepEqual(await readRegions(), ["Wrong Bay"]);
  },
);

test.serial(
  "a region is one in the summary, whether its accents are combining characters or not",
  async (t) => {
    const { setup, orders, report } = await placeOrders(t, 1, await openOwnDatabase(t));
    const [order] = orders;
    if (!order) {
      throw new Error("There is an order.");
    }
    const fact = simulateAllocated(order, AT);
    const [allocation] = fact.allocations;
    if (!allocation) {
      throw new Error("There is an allocation.");
    }
    const writtenIn = (form: "NFC" | "NFD") => ({
      ...allocation,
      reference: form,
      planting_site: {
        ...allocation.planting_site,
        reference: form,
        region: "Príncipe".normalize(form),
        country: "São Tomé".normalize(form),
      },
    });
    const allocations = [writtenIn("NFC"), writtenIn("NFD")];

    await report(order, { ...fact, allocations }, simulatePlanted(order, AT));

    const { body } = await createSummaryReader(setup.deps, renderEvidenceSummary)("live");
    const { summary, regions } = evidenceSummary.parse(JSON.parse(body));
    t.deepEqual(summary.countries, ["São Tomé"]);
    t.deepEqual(
      regions.map(({ id }) => id),
      ["são-tomé-príncipe"],
    );
  },
);

/** Inserts two facts of each of some orders. The statistics do not know them. */
const insertFactsOfOthers = async (db: CommonQueryMethods, accountId: string, orders: number) => {
  await db.query(sql.typeAlias("void")`
    WITH placed AS (
      INSERT INTO planting_order
        (public_id, account_id, mode, partner, partner_name, buyer_name, timeline, tree_count, created_at)
      SELECT 'others-' || number, ${accountId}, 'live', 'manual', '', '', 'sessions', 1, ${timestamp(AT)}
      FROM generate_series(1, ${orders}) AS number
      RETURNING id
    )
    INSERT INTO planting_fact (order_id, stage, state, source, occurred_at, content, digest, received_at)
    SELECT
      id, stage, 'accepted', 'operator', ${timestamp(AT)},
      '{"stage": "planted_and_verified", "planting_site": {"reference": "others"}}', sha256(id::text::bytea),
      ${timestamp(AT)}
    FROM placed
    CROSS JOIN unnest(ARRAY['allocated', 'planted_and_verified']) AS stage
  `);
};

/** The tables in which the details of a site are searched. */
const TABLES = ["planting_order", "planting_fact"];

/** Has facts of many orders between those of a site. Returns what withdrawing the latest of the site reads, and its name. */
const withdrawBehindOthers = async (
  t: ExecutionContext<DatabaseContext>,
  { earlier, others }: { readonly earlier: string | null; readonly others: number },
) => {
  const db = await openTestPool(t, await copyDatabase(t), 1);
  const { setup, orders, report, withdraw, name } = await nameSite(t, "site", db);
  const [first, last] = orders;
  if (!first || !last) {
    throw new Error("There are orders.");
  }
  if (earlier !== null) {
    await report.allocated(first, earlier);
  }
  await insertFactsOfOthers(db, setup.organization.id, others);
  await report.allocated(last, "Wrong Bay");

  const reads = await countReads(db, TABLES, () => withdraw(last, "allocated"));

  return { ...reads, name: await name() };
};

test.serial("a site gets the details of a fact that is 20,000 facts behind", async (t) => {
  const { name } = await withdrawBehindOthers(t, { earlier: "Early Bay", others: 10_000 });

  t.is(name, "Early Bay");
});

test.serial("withdrawing the only fact of a site reads some 100,000 facts of others", async (t) => {
  const { rows, pages, name } = await withdrawBehindOthers(t, { earlier: null, others: 70_000 });

  t.true(rows < 110_000, `${rows} rows`);
  t.true(pages < 20_000, `${pages} pages`);
  t.is(name, "Wrong Bay");
});

test.serial("restoring a site that the latest fact names reads few facts", async (t) => {
  const db = await openTestPool(t, await copyDatabase(t), 1);
  const { setup, orders, report, withdraw, name } = await nameSite(t, "shared", db);
  const [first, last] = orders;
  if (!first || !last) {
    throw new Error("There are orders.");
  }
  await insertFactsOfOthers(db, setup.organization.id, 10_000);
  await report.allocated(first, "Right Bay");
  await report.allocated(last, "Wrong Bay");

  const { rows } = await countReads(db, TABLES, () => withdraw(last, "allocated"));

  t.true(rows < 200, `${rows} rows`);
  t.is(await name(), "Right Bay");
});
