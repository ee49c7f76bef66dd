import { z } from "zod";
import { listFacts } from "../../modules/planting/facts.sql.ts";
import { listPlantingOrders } from "../../modules/planting/orders.sql.ts";
import { listPlantedSites } from "../../modules/planting/tallies.sql.ts";
import { sql } from "../../db/sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import { recordPlantingFacts } from "../../modules/planting/recordPlantingFacts.ts";
import { withdrawPlantingFact } from "../../modules/planting/withdrawPlantingFact.ts";
import { readEvents } from "../events/readEvents.ts";
import { simulateAllocated } from "../../modules/planting/simulated/simulatedFacts.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { lineOf } from "./importLine.ts";
import type { Fields } from "./importLine.ts";
import {
  allocatedRecord,
  orderedTree,
  pending,
  planted,
  plantedRecord,
  record,
  registered,
  tree,
  VERIFIED,
} from "./evidenceLines.ts";
import { linesOf, serveImport, summaryOf, writeTestFile } from "./importScene.ts";

const test = testWithDatabase();

/** What both servers show of a tree; the texts are their own. */
const withoutTexts = (shown: Fields) => {
  const { kind: _kind, country: _country, region: _region, timeline, ...rest } = shown;
  const milestones = z
    .array(z.record(z.string(), z.unknown()))
    .parse(timeline)
    .map(({ title: _title, description: _description, ...milestone }) => milestone);
  return { ...rest, timeline: milestones };
};

const setUp = async (t: DatabaseTest) => {
  const scene = await serveImport(t);
  const get = (id: string) => scene.get(`/evidence/tree/${id}`);
  return {
    ...scene,
    importEvidence: (...lines: readonly (string | Fields)[]) =>
      scene.importText(linesOf(...lines), "--source", "old.example"),
    read: async (id: string) => (await get(id)).body,
    cacheControl: async (id: string) => (await get(id)).headers.get("Cache-Control"),
    shows: async (given: Fields) => {
      const { body } = await get(String(given["tree_id"]));
      const { imported_from: source, simulated, refunded, refunded_count, ...shown } = body;
      t.deepEqual(
        { source, simulated, refunded, refunded_count },
        { source: "old.example", simulated: false, refunded: false, refunded_count: 0 },
      );
      t.deepEqual(withoutTexts(shown), withoutTexts(given));
    },
  };
};

test("the old server's timeline is shown with its ids, dates and proofs, and marked as imported", async (t) => {
  const { importEvidence, importText, impact, id: org, shows, read } = await setUp(t);
  // Two trees share their evidence; the third one of the order has an allocation of its own.
  const lines = [
    plantedRecord("a", 31),
    plantedRecord("bb", 31),
    plantedRecord("c", Number.MAX_SAFE_INTEGER),
    VERIFIED,
    record("r", "registered", {}, [registered("r"), pending(2, "funds_distributed")]),
  ];
  const trees = ["a", "bb", "c", "v", "r"].map(tree);
  const dry = await importText(linesOf(...trees, ...lines), "--source", "old.example", "--dry-run");
  const counts = { exitCode: 0, lines: 10, new: 9, known: 1, conflict: 0, bad: 0 };
  t.like(summaryOf(dry), counts, dry.stderr);
  const run = await importEvidence(...trees, ...lines);
  t.like(summaryOf(run), counts, run.stderr);
  for (const line of lines.slice(0, 4)) {
    await shows(line);
  }
  const { timeline } = await read("v");
  t.regex(JSON.stringify(timeline), /has verified them\. Imported from old\.example\./u);
  t.is((await read("r"))["imported_from"], undefined);

  t.like(summaryOf(await importEvidence(...lines)), { new: 0, known: 5 });
  const file = await writeTestFile(t, "all.ndjson", linesOf(...trees, ...lines));
  await impact.ok("import", "history", "--verify", file, "--org", org, "--source", "old.example");
  const orders = await impact.json("evidence", "order", "list", "--org", org);
  t.is(z.array(z.unknown()).parse(orders).length, 3);
});

test("planted trees of imported evidence count on the dashboard, without those refunded", async (t) => {
  const { importEvidence, id } = await setUp(t);
  await importEvidence(tree("a"), tree("b"), plantedRecord("a", 31), plantedRecord("b", 31));
  const site = { name: "Gazi Bay", region: "Kwale", country: "Kenya", verified: 0 };
  t.like(await listPlantedSites(t.context.db, id, false), [{ ...site, planted: 8 }]);
  await importEvidence(
    lineOf({ id: "a", count: 4, refunded_count: 3, created_at: "2024-05-01T08:00:00Z" }),
  );
  t.like(await listPlantedSites(t.context.db, id, false), [{ ...site, planted: 5 }]);
});

test("a tree follows evidence that has gone further, and nothing else", async (t) => {
  const { importEvidence, impact, id, shows } = await setUp(t);
  await importEvidence(tree("a"), tree("b"), allocatedRecord("a", 31), allocatedRecord("b", 31));
  await shows(allocatedRecord("a", 31));
  t.like(summaryOf(await importEvidence(plantedRecord("a", 31))), { new: 1 });
  await shows(plantedRecord("a", 31));
  await shows(allocatedRecord("b", 31));
  // An older export changes nothing.
  t.like(summaryOf(await importEvidence(allocatedRecord("a", 31))), { known: 1 });
  t.like(summaryOf(await importEvidence(plantedRecord("b", 31))), { new: 1 });
  const orders = await impact.json("evidence", "order", "list", "--org", id);
  t.is(z.array(z.unknown()).parse(orders).length, 1);

  const other = await importEvidence(plantedRecord("a", 32));
  t.is(other.exitCode, 1);
  t.regex(other.stderr, /line 1: conflict: other evidence is there, of the planting order po_/u);
  await shows(plantedRecord("a", 31));
});

test("a withdrawn fact of imported evidence is gone, and recording it again shows the same", async (t) => {
  const { db } = t.context;
  const { importEvidence, id, read, shows } = await setUp(t);
  await importEvidence(tree("a"), plantedRecord("a", 31));
  const [order = t.fail()] = await listPlantingOrders(db, { accountId: id, limit: 1 });
  const facts = await listFacts(db, order.id);
  const fact = facts.find(({ stage }) => stage === "planted") ?? t.fail();
  t.like(fact, { source: "import", state: "accepted" });
  const actor = { kind: "operator", name: "ann", reason: null } as const;
  const deps = { db, clock: systemClock, actor };
  await withdrawPlantingFact(deps, fact.id, "wrong photos");
  t.like(await read("a"), { status: "allocated", provider_meta: { allocation_id: 31 } });
  t.deepEqual(await listPlantedSites(db, id, false), []);
  t.like(summaryOf(await importEvidence(plantedRecord("a", 31))), { known: 1 });
  t.like(await read("a"), { status: "allocated" });
  await recordPlantingFacts(deps, order.id, [fact.content], "operator");
  await shows(plantedRecord("a", 31));
});

test("evidence that proves nothing here is rejected by name", async (t) => {
  const { importEvidence, importText } = await setUp(t);
  const [first, second, third] = plantedRecord("a", 31).timeline;
  const run = await importEvidence(
    tree("a"),
    plantedRecord("nobody", 31),
    { ...plantedRecord("a", 31), simulated: true },
    { ...plantedRecord("a", 31), colour: "red" },
    { ...plantedRecord("a", 31), timeline: [first, second, planted] },
    { ...plantedRecord("a", 31), timeline: [first, { ...second, timestamp: undefined }, third] },
    {
      ...plantedRecord("a", 31),
      provider_meta: {},
      timeline: [first, { ...second, evidence: {} }],
    },
  );
  t.like(summaryOf(run), { new: 1, bad: 6 });
  for (const reason of [
    "line 2: tree_id: no imported tree has this id",
    "line 3: simulated: is true: nothing was planted",
    "line 4: colour: unknown field",
    "line 5: planted: is completed, but an earlier milestone is not",
    "line 6: funds_distributed: a completed milestone needs its timestamp and its evidence",
    "line 7: order_id and order_public_id: required",
  ]) {
    t.true(run.stderr.includes(reason), `${reason}\n${run.stderr}`);
  }
  const unnamed = await importText(linesOf(plantedRecord("a", 31)));
  t.regex(unnamed.stderr, /evidence needs --source/u);
});

test("clients may cache imported evidence once its timeline is complete", async (t) => {
  const { importEvidence, cacheControl, id: org } = await setUp(t);
  await importEvidence(tree("a"), tree("bb"), allocatedRecord("a", 31), plantedRecord("bb", 31));
  const ownIds = await t.context.db.anyFirst(sql.type(z.strictObject({ id: z.uuid() }))`
    SELECT id FROM registration WHERE account_id = ${org} ORDER BY imported_id DESC
  `);

  // The text is rendered first, and then read from the cache by either id.
  for (const id of ["bb", "bb", ownIds[0] ?? ""]) {
    t.is(await cacheControl(id), "private, max-age=2592000");
  }
  for (const id of ["a", "a", ownIds[1] ?? ""]) {
    t.is(await cacheControl(id), "private, no-cache");
  }
});

test("operators, events and evidence name an imported order by the ids that its evidence shows", async (t) => {
  const { db } = t.context;
  const { id: accountId, importEvidence, impact, read } = await setUp(t);
  await importEvidence(...orderedTree("a", 90_000_108));
  const [order = t.fail()] = await listPlantingOrders(db, { accountId, limit: 2 });
  const shownIds = { order_id: 90_000_108, public_id: "ORD-90000108" };
  const ids = {
    id: order.id,
    public_id: order.publicId,
    evidence_order_id: shownIds.order_id,
    evidence_public_id: shownIds.public_id,
  };
  t.like(await impact.json("evidence", "order", "list", "--org", accountId), [ids]);
  const table = await impact("evidence", "order", "list", "--org", accountId);
  t.regex(table.stdout, /ORD-90000108/u);
  for (const given of [String(order.id), order.publicId]) {
    t.like(await impact.json("evidence", "order", "show", given), ids);
  }

  const allocation = simulateAllocated(order, new Date("2024-05-10T08:00:00.000Z"));
  await recordPlantingFacts({ db, clock: systemClock }, order.id, [allocation], "operator");
  const owner = { accountId, mode: "live" } as const;
  const types = ["evidence.milestone_reached"] as const;
  const events = await readEvents({ db, clock: systemClock }, owner, { types });
  const data = events.map((event) => event.data);
  t.deepEqual(data, [{ ...shownIds, milestone: "allocated", tree_count: 4 }]);
  t.like(await read("a"), { status: "allocated", provider_meta: shownIds });
});
