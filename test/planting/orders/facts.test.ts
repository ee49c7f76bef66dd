import { sql } from "../../../db/sql.ts";
import { plantingReport } from "../../../modules/planting/fact.rules.ts";
import type { PlantingFactOf } from "../../../modules/planting/fact.rules.ts";
import { pollPlantingOrder } from "../../../modules/planting/pollPlantingOrder.ts";
import { recordPlantingFacts } from "../../../modules/planting/recordPlantingFacts.ts";
import {
  simulatePlanted,
  simulateVerified,
  simulateAllocated,
} from "../../../modules/planting/simulated/simulatedFacts.ts";
import { testWithDatabase } from "../../support/database.ts";
import { whileOpen } from "../../support/lockWaits.ts";
import { placeOrders } from "../setUpPlanting.ts";
import { readEvents } from "../../events/readEvents.ts";
import type { DatabaseTest } from "../../support/database.ts";
import type { DatabasePool } from "slonik";
import { readSharedSummary } from "../../../modules/planting/readEvidence.ts";
import type { PlantingOrder } from "../../../modules/planting/orders.sql.ts";
import { listLatestMedia } from "../../../modules/planting/sites.sql.ts";
import { readSummary } from "../../../modules/planting/summary.sql.ts";
import { openOwnDatabase } from "../evidence/evidenceApi.ts";

const test = testWithDatabase().serial;

test("a contradiction is stored and changes nothing", async (t) => {
  const { setup, order, allocated, planted, report } = await placeOrders(t.context.db);
  await report(allocated, planted);
  const before = await setup.firstOrder();
  const other = simulatePlanted(order, new Date("2026-06-15T08:00:00.000Z"));
  t.deepEqual(await report(other, other), ["contradiction", "repeated"]);
  const early = simulateVerified(order, new Date("2026-05-20T08:00:00.000Z"));
  t.deepEqual(await report(early), ["contradiction"]);
  t.deepEqual(await setup.firstOrder(), before);
});

test("an order is polled until its timeline is complete, and a later verification is recorded", async (t) => {
  const { setup, order, allocated, planted, verified, report } = await placeOrders(t.context.db);
  const poll = () => pollPlantingOrder(setup.deps, order.id, new AbortController().signal);
  await report(allocated);
  t.false((await poll()).isFinished);
  await report(planted);
  t.true((await poll()).isFinished);
  t.deepEqual(await report(verified), ["accepted"]);
  t.is((await setup.firstOrder()).stage, "planted_and_verified");
  t.true((await poll()).isFinished);
});

test("concurrent reports record each fact once", async (t) => {
  const { allocated, planted, verified, report, states } = await placeOrders(t.context.db);
  const all = [verified, planted, allocated];
  await Promise.all(Array.from({ length: 12 }, (_, index) => report(all[index % 3] ?? allocated)));
  t.deepEqual((await states()).toSorted(), [
    "allocated accepted",
    "funds_distributed accepted",
    "planted accepted",
    "planted_and_verified accepted",
  ]);
});

test("reports do not wait for the sites that they name without a change", async (t) => {
  const { setup, placed } = await placeOrders(t.context.db, 2);
  const [first = t.fail(), second = t.fail()] = placed;
  const { allocations } = first.allocated;
  await first.report(first.allocated);
  const outcomes = await whileOpen(
    t.context.db,
    (transaction) => transaction.query(sql.typeAlias("void")`SELECT FROM planting_site FOR UPDATE`),
    () => second.report({ ...second.allocated, allocations }),
  );
  t.deepEqual(outcomes, ["accepted"]);
  t.is((await setup.orders())[1]?.stage, "allocated");
});

test("a fact in the future is rejected, and its whole report with it", async (t) => {
  const { order, allocated, report, states } = await placeOrders(t.context.db);
  const ahead = simulatePlanted(order, new Date("2026-07-02T08:00:00.000Z"));
  await t.throwsAsync(report(allocated, ahead), {
    message: "planted: occurred_at is in the future",
  });
  const allocations = allocated.allocations.map((allocation) => ({
    ...allocation,
    date_allocated: "2066-01-01T00:00:00Z",
  }));
  await t.throwsAsync(report({ ...allocated, allocations }), {
    message: "allocated: date_allocated is in the future",
  });
  t.deepEqual(await states(), ["funds_distributed accepted"]);
});

test("a fact in a year that cannot be stored is rejected as invalid", async (t) => {
  const { setup, order } = await placeOrders(t.context.db);
  const parse = (time: string) =>
    plantingReport.safeParse({
      order: order.publicId,
      facts: [{ stage: "planted", media: [], occurred_at: time }],
    });
  for (const time of [
    "0000-01-01T00:00:00+14:00",
    "0001-01-01T00:00:00Z",
    "1969-12-31T23:59:59Z",
    "9999-12-31T23:59:59-14:00",
  ]) {
    t.like(parse(time).error?.issues[0], {
      path: ["facts", 0, "occurred_at"],
      message: "must be a time in the years 1970 to 9999",
    });
  }
  const report = plantingReport.parse(parse("1970-01-01T00:00:00Z").data);
  const recorded = await recordPlantingFacts(setup.deps, report.order, report.facts, "callback");
  t.like(recorded, [{ outcome: "waiting" }]);
});

/** Places an order, and lists the milestones of which there are events. */
const placeOrder = async (t: DatabaseTest) => {
  const placed = await placeOrders(t.context.db);
  const { deps, organization } = placed.setup;
  const owner = { accountId: organization.id, mode: "live" } as const;
  // The feed begins 30 days ago.
  const clock = { now: () => new Date("2026-05-02T00:00:00Z") };
  return {
    ...placed,
    milestones: async () =>
      (await readEvents({ ...deps, clock }, owner, { types: ["evidence.milestone_reached"] })).map(
        ({ data }) => ("milestone" in data ? data.milestone : null),
      ),
  };
};

test("each milestone that a report reaches is an event, in their order", async (t) => {
  const { allocated, planted, verified, report, milestones } = await placeOrder(t);
  await report(planted);
  t.deepEqual(await milestones(), ["funds_distributed"]);
  await report(verified, allocated);
  const all = ["funds_distributed", "allocated", "planted", "planted_and_verified"];
  t.deepEqual(await milestones(), all);
});

test("planting that is reported after its verification is an event", async (t) => {
  const { allocated, planted, verified, report, milestones } = await placeOrder(t);
  await report(allocated);
  await report(verified);
  await report(planted);
  const all = ["funds_distributed", "allocated", "planted_and_verified", "planted"];
  t.deepEqual(await milestones(), all);
  await report(planted);
  t.deepEqual(await milestones(), all);
});

test("replacing a fact records no second event, and reaching a milestone again does", async (t) => {
  const { allocated, planted, report, withdraw, milestones } = await placeOrder(t);
  await report(allocated, planted);
  t.deepEqual(await report({ ...planted, media: planted.media.slice(1) }), ["contradiction"]);
  await withdraw("planted");
  const once = ["funds_distributed", "allocated", "planted"];
  t.deepEqual(await milestones(), once);

  await withdraw("allocated");
  const allocations = allocated.allocations.map((each) => ({ ...each, reference: "A-1" }));
  await report({ ...allocated, allocations });
  t.deepEqual(await milestones(), [...once, "allocated", "planted"]);
});

const AT = new Date("2026-05-01T10:00:00.000Z");

/** Reads the regions of the summary of live trees. */
const readRegions = async (db: DatabasePool) =>
  (await readSummary(db, { mode: "live", isSimulated: false })).regions;

/** Allocates an order's trees to sites, which are named by their references. */
const allocatedTo = (order: PlantingOrder, sites: readonly string[]) => {
  const fact = simulateAllocated(order, AT);
  return {
    ...fact,
    allocations: fact.allocations.flatMap((allocation) =>
      sites.map((name) =>
        Object.assign({}, allocation, {
          reference: `${order.publicId}/${name}`,
          planting_site: { ...allocation.planting_site, reference: name, name },
        }),
      ),
    ),
  };
};

test("photos of a verification belong to the site that was verified", async (t) => {
  const { setup, order, report } = await placeOrders(t.context.db);
  const verified = simulateVerified(order, AT);
  const site = { ...verified.planting_site, reference: "south", name: "south" };
  const url = "https://photos.example/south.jpg";

  await report(
    allocatedTo(order, ["north", "south"]),
    { ...simulatePlanted(order, AT), media: [] },
    { ...verified, planting_site: site, photos: [url] },
  );

  const media = await listLatestMedia(t.context.db, setup.organization.id, 6, false);
  t.like(media, { length: 1, 0: { url, siteName: "south", isOfVerification: true, trees: 10 } });
});

/** Allocates an order to one site, in a region of a name. */
const allocatedIn = (order: PlantingOrder, name: string): PlantingFactOf<"allocated"> => {
  const fact = allocatedTo(order, ["shared"]);
  const allocations = fact.allocations.map((allocation) => ({
    ...allocation,
    planting_site: { ...allocation.planting_site, region: name },
  }));
  return { ...fact, allocations };
};

test("a site has the details of the last fact that took effect and named it", async (t) => {
  const { setup, placed } = await placeOrders(await openOwnDatabase(t), 2);
  const [first = t.fail(), second = t.fail()] = placed;
  const regions = async () =>
    (await readSharedSummary(setup.deps, "live")).regions.map(({ region }) => region);

  await first.report(allocatedIn(first.order, "Right Bay"), simulatePlanted(first.order, AT));
  t.deepEqual(await regions(), ["Right Bay"]);
  await second.report(allocatedIn(second.order, "Wrong Bay"));
  await second.report(allocatedIn(second.order, "Left Bay"));
  await second.withdraw("allocated");
  t.deepEqual(await regions(), ["Left Bay"]);
  await first.withdraw("planted");
  await first.report(simulatePlanted(first.order, AT));
  t.deepEqual(await regions(), ["Left Bay"], "a fact that stays in effect changes nothing");
  const verified = simulateVerified(first.order, AT);
  await first.report({
    ...verified,
    planting_site: { ...verified.planting_site, reference: "shared", region: "Wrong Bay" },
  });
  t.deepEqual(await regions(), ["Wrong Bay"]);
  await first.withdraw("planted_and_verified");
  t.deepEqual(await regions(), ["Right Bay"], "the order's other fact names the site as well");
});

test("a region is one in the summary, whether its accents are combining characters or not", async (t) => {
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

  const places = (await readRegions(db)).map(({ region, country }) => [region, country]);
  t.deepEqual(places, [["Príncipe", "São Tomé"]]);
});
