import { evidenceSummary } from "../../../api/endpoints/presentEvidenceSummary.ts";
import { sql } from "../../../db/sql.ts";
import { lockPlantingOrder } from "../../../modules/planting/orders.sql.ts";
import { pollPlantingOrder } from "../../../modules/planting/pollPlantingOrder.ts";
import { recordPlantingFacts } from "../../../modules/planting/recordPlantingFacts.ts";
import { listPlantedSites } from "../../../modules/planting/tallies.sql.ts";
import { impactOf } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseTest } from "../../support/database.ts";
import { runBehindLocks } from "../../support/lockWaits.ts";
import { skipIds } from "../../support/skipIds.ts";
import { startEvidenceApi } from "../evidence/evidenceApi.ts";
import { fundsDistributed, placeOrders, reportsOf, setUpPlanting } from "../setUpPlanting.ts";
import { signCallback } from "../../../api/http/signatures.ts";
import { simulatePlanted } from "../../../modules/planting/simulated/simulatedFacts.ts";
import { startStandaloneApi } from "../../api/startStandaloneApi.ts";

const test = testWithDatabase().serial;

test.before((t) => skipIds(t.context.owner, "planting_fact"));

/** Places an order of ten trees with the manual partner, reads their evidence, and runs commands. */
const placeOrder = async (t: DatabaseTest) => {
  const { db } = t.context;
  const { setup, read } = await startEvidenceApi(t, { partner: "manual" });
  const id = await setup.register(10);
  await setup.createAndPlace();
  setup.clock.set("2026-06-30T10:00:00.000Z");
  return {
    setup,
    ...reportsOf(setup, await setup.firstOrder()),
    impact: impactOf(t, { clock: setup.clock }),
    /** Returns what runs the command that records a report. */
    recordOf: (report: object) =>
      impactOf(t, { clock: setup.clock, stdin: JSON.stringify(report) }, "evidence", "record", "-"),
    readTree: async () => (await read(`/evidence/tree/${id}`)).json,
    readSummary: async () => evidenceSummary.parse(JSON.parse((await read("/evidence")).text)),
    plantedTrees: async () =>
      (await listPlantedSites(db, setup.organization.id, false)).map((site) => site.planted),
  };
};

const BY_ANN = ["--as", "ann", "--reason", "photos of another site"];
const withdrawal = (fact: number) => ["evidence", "withdraw", String(fact), ...BY_ANN];

test("a withdrawn fact no longer counts, and stays stored with its proof, reason and operator", async (t) => {
  const stage = await placeOrder(t);
  await stage.report(stage.allocated, stage.planted);
  const before = await stage.readTree();
  t.is(before.status, "planted");
  t.is((await stage.readSummary()).summary.trees_planted, 10);
  t.deepEqual(await stage.plantedTrees(), [10]);

  const fact = await stage.numberOf("planted");
  t.deepEqual(await stage.impact.json(...withdrawal(fact)), {
    order: stage.order.publicId,
    stage_before: "planted",
    stage_after: "allocated",
    changes: [{ fact, stage: "planted", before: "accepted", after: "withdrawn" }],
  });

  const after = await stage.readTree();
  t.is(after.status, "allocated");
  t.like(after.timeline?.[3], { step: 4, event: "planted", status: "pending" });
  const { summary, regions } = await stage.readSummary();
  t.is(summary.trees_planted, 0);
  t.deepEqual(regions, []);
  t.deepEqual(await stage.plantedTrees(), []);
  const shown = await stage.impact("evidence", "order", "show", stage.order.publicId);
  t.regex(shown.stdout, /planted +withdrawn .* ann +photos of another site/u);
  t.regex(shown.stdout, new RegExp(`^${fact} +planted`, "mu"), "the fact as withdraw takes it");
  t.like(await stage.impact.json("audit", "list", "--action", "evidence.withdraw"), [
    { operator: "ann", reason: "photos of another site", subject: String(stage.order.id) },
  ]);

  const again = await stage.impact.ok(...withdrawal(fact));
  t.regex(again.stderr, /was already withdrawn/u);
  // The partner reports it again.
  const { deps } = stage.setup;
  const [repeated] = await recordPlantingFacts(deps, stage.order.id, [stage.planted], "partner");
  t.is(repeated?.outcome, "withdrawn");
  t.deepEqual(await stage.readTree(), after);

  // An operator does, which undoes the withdrawal.
  t.deepEqual(await stage.report(stage.planted), ["accepted"]);
  t.is((await stage.readTree()).status, "planted");
  t.deepEqual(await stage.plantedTrees(), [10]);
  t.is((await stage.readSummary()).summary.trees_planted, 10);
});

test("a fact that replaces a withdrawn one takes effect with the withdrawal, and facts that need it stay in effect", async (t) => {
  const stage = await placeOrder(t);
  const { allocated } = stage;
  await stage.report(allocated, stage.planted, stage.verified);
  const [allocation] = allocated.allocations;
  const site = { ...allocation?.planting_site, reference: "S-9", name: "Right Bay" };
  const corrected = { ...allocated, allocations: [{ ...allocation, planting_site: site }] };
  await stage.recordOf({ order: stage.order.publicId, facts: [corrected] }).fails(1);
  await stage.impact.ok(...withdrawal(await stage.numberOf("allocated")));
  t.deepEqual(await stage.states(), [
    "funds_distributed accepted",
    "allocated withdrawn",
    "planted accepted",
    "planted_and_verified accepted",
    "allocated accepted",
  ]);
  const tree = await stage.readTree();
  t.is(tree.status, "planted_and_verified");
  t.regex(JSON.stringify(tree), /Right Bay/u);
  t.deepEqual(await stage.plantedTrees(), [10]);
});

test("withdrawing a fact lets later ones wait, and decides its contradictions again", async (t) => {
  const stage = await placeOrder(t);
  const later = { ...stage.allocated, occurred_at: "2026-05-11T08:00:00.000Z" };
  await stage.report(stage.allocated, stage.planted, later);
  t.is((await stage.states())[3], "allocated contradiction");

  const first = await stage.numberOf("allocated");
  const withdrawn = await stage.impact.ok(...withdrawal(first));
  t.regex(withdrawn.stdout, new RegExp(`^${first} +allocated +accepted +withdrawn$`, "mu"));
  t.deepEqual(await stage.states(), [
    "funds_distributed accepted",
    "allocated withdrawn",
    "planted accepted",
    "allocated accepted",
  ]);

  const second = await stage.numberOf("allocated");
  await stage.impact.ok(...withdrawal(second));
  t.deepEqual((await stage.states()).slice(2), ["planted waiting", "allocated withdrawn"]);
  t.is((await stage.readTree()).status, "funds_distributed");

  t.deepEqual(await stage.report(stage.allocated, later), ["accepted", "contradiction"]);
  t.is((await stage.states())[3], "allocated contradiction");
});

test("a fact that does not exist is rejected", async (t) => {
  const stage = await placeOrder(t);
  const missing = await stage.impact.fails(3, ...withdrawal(999_999_999));
  t.regex(missing, /fact 999999999 not found/u);
  await stage.impact.fails(2, "evidence", "withdraw", "1");
});

test("a poll that began before a fact was withdrawn finishes no order", async (t) => {
  const { db } = t.context;
  const { setup, order, allocated, planted, report, withdraw } = await placeOrders(db);
  await report(allocated, planted);

  const [withdrawn, poll] = await runBehindLocks<
    [Awaited<ReturnType<typeof withdraw>>, { readonly isFinished: boolean }]
  >(
    db,
    (transaction) => lockPlantingOrder(transaction, order.id),
    () => withdraw("planted"),
    // It has read that the trees are planted, and waits to record that the order is finished.
    () => pollPlantingOrder(setup.deps, order.id, new AbortController().signal),
  );

  t.is(withdrawn.stageAfter, "allocated");
  t.false(poll.isFinished);
  t.true(
    await db.exists(sql.typeAlias("void")`
      SELECT FROM planting_order WHERE id = ${order.id} AND finished_at IS NULL
    `),
  );
});

test("planting that a later fact verifies is withdrawn after the verification, or replaced", async (t) => {
  const { db } = t.context;
  const { allocated, planted, verified, report, withdraw, states } = await placeOrders(db);
  await report(allocated, planted, verified);
  const accepted = async () =>
    (await states()).filter((state) => state.endsWith("accepted")).toSorted();
  const all = await accepted();
  t.is(all.length, 4);
  await t.throwsAsync(withdraw("planted"), {
    message: /^fact \d+ verifies what fact \d+ reports as planted; withdraw fact \d+ first/u,
  });
  t.deepEqual(await accepted(), all);
  await report({ ...planted, media: planted.media.slice(1) });
  await withdraw("planted");
  t.deepEqual(await accepted(), all);
  await withdraw("planted_and_verified");
  await withdraw("planted");
  t.deepEqual(await accepted(), ["allocated accepted", "funds_distributed accepted"]);
});

test("the service's own placement of an order cannot be withdrawn", async (t) => {
  const setup = await setUpPlanting(t.context.db);
  await setup.order(10);
  await setup.place();
  const { order, report, withdraw, states } = reportsOf(setup, await setup.firstOrder());
  await report(fundsDistributed("another", order.createdAt));
  await t.throwsAsync(withdraw("funds_distributed"), { code: "request_invalid" });
  t.deepEqual(await states(), ["funds_distributed accepted", "funds_distributed contradiction"]);
});

const SECRET = "a shared secret of both sides";

test("a repeated fact changes nothing, in whatever time zone it is written", async (t) => {
  const { setup, order, allocated, report, recordOf, impact } = await placeOrder(t);
  t.deepEqual(await report(allocated), ["accepted"]);
  const before = await setup.firstOrder();
  t.deepEqual(await report(allocated, allocated), ["repeated", "repeated"]);
  const facts = [{ ...allocated, occurred_at: "2026-05-10T10:00:00+02:00" }];
  const repeated = await recordOf({ order: order.publicId, facts }).json();
  t.deepEqual(repeated, [{ stage: "allocated", outcome: "repeated", reason: null }]);
  t.deepEqual(await setup.firstOrder(), before);
  const details = { facts: [{ stage: "allocated", outcome: "repeated" }] };
  const recorded = await impact.json("audit", "list", "--action", "evidence.record");
  t.like(recorded, [{ subject: String(order.id), details }]);
});

test("operators see contradictions, and the sites and photos of each fact", async (t) => {
  const { order, allocated, planted, verified, numberOf, report, impact } = await placeOrder(t);
  await report(allocated, planted, verified);
  await report(simulatePlanted(order, new Date("2026-06-15T08:00:00.000Z")));
  const listed = await impact.json("evidence", "order", "list", "--contradicted");
  t.like(listed, { 0: { public_id: order.publicId, stage: "planted_and_verified" } });
  const shown = await impact.ok("evidence", "order", "show", order.publicId);
  t.regex(shown.stdout, /planted is already recorded with different details/u);
  for (const [stage, proof] of [
    ["allocated", `site +${allocated.allocations[0]?.planting_site.name}, `],
    ["planted", `photo +${planted.media[0]?.url}`],
    ["planted_and_verified", `site +${verified.planting_site.name}, `],
    ["planted_and_verified", `photo +${verified.photos[0]}`],
  ] as const) {
    t.regex(shown.stdout, new RegExp(`^${await numberOf(stage)} +${proof}`, "mu"));
  }
});

test("an invalid file is rejected with the problem of each field, and nothing of it is recorded", async (t) => {
  const { order, allocated, planted, states, recordOf } = await placeOrder(t);
  const [allocation] = allocated.allocations;
  const wrong = {
    order: order.publicId,
    facts: [
      {
        ...allocated,
        allocations: [
          { ...allocation, crew: { ...allocation?.crew, women_members: 99_999 }, notes: "x" },
        ],
      },
      {
        ...planted,
        occurred_at: "yesterday",
        media: [{ ...planted.media[0], url: "https://x;script-src/a.jpg" }],
      },
    ],
  };
  const rejected = await recordOf(wrong).fails(2);
  t.regex(rejected, /women_members must not exceed total_members/u);
  t.regex(rejected, /facts\.0\.allocations\.0\.notes: unknown field/u);
  t.regex(rejected, /facts\.1\.occurred_at: must be a timestamp/u);
  t.regex(rejected, /facts\.1\.media\.0\.url: must be an http:\/\/ or https:\/\/ URL/u);
  t.is((await states()).length, 1);
  await recordOf({ order: "po_unknown", facts: [allocated] }).fails(3);
});

test("a signed callback is recorded; any other is rejected", async (t) => {
  const { setup, order, allocated, states } = await placeOrders(t.context.db);
  const { url } = await startStandaloneApi(t, {
    db: t.context.db,
    clock: setup.clock,
    plantingCallbackSecrets: ["the secret that replaces it", SECRET],
  });
  const now = Math.floor(setup.clock.now().getTime() / 1000);
  const body = JSON.stringify({ order: order.publicId, facts: [allocated] });
  const send = async (signature: string | null, text = body, slash = "") => {
    const response = await fetch(`${url}/planting/callback${slash}`, {
      method: "POST",
      headers: {
        "Content-Type": "application/json",
        ...(signature === null ? {} : { "Planting-Signature": signature }),
      },
      body: text,
    });
    const json: unknown = await response.json();
    return { status: response.status, json };
  };
  const sign = (text: string, second = now): string =>
    `t=${second},v1=${signCallback(SECRET, text, second)}`;

  for (const [signature, error] of [
    [null, "missing Planting-Signature header"],
    ["nonsense", "malformed Planting-Signature header"],
    [`t=${now},v1=${"0".repeat(64)}`, "invalid signature"],
    [sign(`${body} `), "invalid signature"],
    [sign(body, now - 301), "signature is too old"],
    [sign(body, now + 301), "signature is too old"],
  ] as const) {
    t.deepEqual(await send(signature), { status: 401, json: { error } });
  }
  t.is((await states()).length, 1);

  // While a secret is replaced a partner signs with both.
  const bothSigned = `t=${now},v1=${"0".repeat(64)},${sign(body).split(",")[1] ?? ""}`;
  const results = [{ stage: "allocated", outcome: "accepted", reason: null }];
  t.deepEqual(await send(bothSigned), { status: 200, json: { order: order.publicId, results } });
  t.like(await send(sign(body), body, "/"), { json: { results: [{ outcome: "repeated" }] } });

  const unknown = JSON.stringify({ order: "po_unknown", facts: [allocated] });
  t.is((await send(sign(unknown), unknown)).status, 404);
  const malformed = JSON.stringify({ order: order.publicId, facts: [{ stage: "planted" }] });
  t.is((await send(sign(malformed), malformed)).status, 400);
});

test("without a secret the callback does not exist", async (t) => {
  const { url } = await startStandaloneApi(t, t.context);
  t.is((await fetch(`${url}/planting/callback`, { method: "POST" })).status, 404);
});
