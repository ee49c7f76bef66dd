import type { ExecutionContext } from "ava";
import { Client } from "pg";
import { evidenceSummary } from "../../../api/endpoints/presentEvidenceSummary.ts";
import { listFacts } from "../../../modules/planting/facts.sql.ts";
import { listPlantedSites } from "../../../modules/planting/tallies.sql.ts";
import { sql } from "../../../db/sql.ts";
import {
  simulateAllocated,
  simulatePlanted,
  simulateVerified,
} from "../../../modules/planting/simulated/simulatedFacts.ts";
import { pollPlantingOrder } from "../../../modules/planting/pollPlantingOrder.ts";
import { withdrawPlantingFact } from "../../../modules/planting/withdrawPlantingFact.ts";
import { recordPlantingFacts } from "../../../modules/planting/recordPlantingFacts.ts";
import { plantingOrder } from "../../../workflows/plantingOrder.ts";
import { readJson, runImpact } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { skipIds } from "../../support/skipIds.ts";
import { eventually, openNamespace, TEMPORAL_ADDRESS } from "../../support/programs.ts";
import { createAndPlace, eventsOf, startEvidenceApi } from "../evidence/evidenceApi.ts";
import { setUpPlanting } from "../setUpPlanting.ts";

const test = testWithDatabase();

test.before((t) => skipIds(t.context.owner, "planting_fact"));

const OPERATOR = { kind: "operator", name: "ann", reason: null } as const;

/** Places an order of ten trees with the manual partner, and runs commands on it. */
const placeOrder = async (t: ExecutionContext<DatabaseContext>) => {
  const { db, databaseUrl } = t.context;
  const { setup, read } = await startEvidenceApi(t, { partner: "manual" });
  const id = await setup.register(10);
  await createAndPlace(setup);
  setup.clock.set("2026-06-30T10:00:00.000Z");
  const [order] = await setup.orders();
  if (!order) {
    throw new Error("There is an order.");
  }
  const facts = async () =>
    (await listFacts(db, order.id)).map(({ stage, state }) => `${stage} ${state}`);
  const numberOf = async (stage: string, state = "accepted"): Promise<string> =>
    String(
      (await listFacts(db, order.id)).find((fact) => fact.stage === stage && fact.state === state)
        ?.id,
    );
  return {
    setup,
    order,
    facts,
    numberOf,
    run: (args: readonly string[], stdin?: string) =>
      runImpact(["evidence", ...args], {
        env: { DATABASE_URL: databaseUrl, TEMPORAL_ADDRESS },
        clock: setup.clock,
        ...(stdin === undefined ? {} : { stdin }),
      }),
    readTree: async () => (await read(`/evidence/tree/${id}`)).json,
    readSummary: async () => evidenceSummary.parse(JSON.parse((await read("/evidence")).text)),
    planted: async () =>
      (await listPlantedSites(db, setup.organization.id, false)).map(({ planted }) => planted),
    reports: {
      allocated: simulateAllocated(order, new Date("2026-05-10T08:00:00.000Z")),
      planted: simulatePlanted(order, new Date("2026-06-01T08:00:00.000Z")),
      verified: simulateVerified(order, new Date("2026-06-20T08:00:00.000Z")),
    },
  };
};

test.serial(
  "a withdrawn fact no longer counts, and stays stored with its proof, reason and operator",
  async (t) => {
    const stage = await placeOrder(t);
    const { allocated, planted } = stage.reports;
    await recordPlantingFacts(stage.setup.deps, stage.order.id, [allocated, planted], "operator");
    const before = await stage.readTree();
    t.is(before.status, "planted");
    t.is((await stage.readSummary()).summary.trees_planted, 10);
    t.deepEqual(await stage.planted(), [10]);

    const fact = await stage.numberOf("planted");
    const options = ["--reason", "photos of another site", "--as", "ann"];
    const dryRun = await stage.run(["withdraw", fact, ...options, "--dry-run", "--json"]);
    t.is(dryRun.exitCode, 0, dryRun.stderr);
    t.deepEqual(await stage.readTree(), before);
    const run = await stage.run(["withdraw", fact, ...options, "--json"]);
    t.is(run.exitCode, 0, run.stderr);
    t.deepEqual(readJson(run), readJson(dryRun));
    t.deepEqual(readJson(run), {
      order: stage.order.publicId,
      stage_before: "planted",
      stage_after: "allocated",
      changes: [{ fact: Number(fact), stage: "planted", before: "accepted", after: "withdrawn" }],
      replacement: [],
    });

    const after = await stage.readTree();
    t.is(after.status, "allocated");
    t.is(eventsOf(after)[3], "4 planted pending");
    const { summary, regions } = await stage.readSummary();
    t.is(summary.trees_planted, 0);
    t.deepEqual(regions, []);
    t.deepEqual(await stage.planted(), []);
    const shown = await stage.run(["order", "show", stage.order.publicId]);
    t.regex(shown.stdout, /planted +withdrawn .* ann +photos of another site/u);
    t.regex(shown.stdout, new RegExp(`^${fact} +planted`, "mu"), "the fact as withdraw takes it");
    const audit = await runImpact(["audit", "list", "--action", "evidence.withdraw", "--json"], {
      env: { DATABASE_URL: t.context.databaseUrl },
    });
    t.like(readJson(audit), [
      { operator: "ann", reason: "photos of another site", subject: String(stage.order.id) },
    ]);

    const again = await stage.run(["withdraw", fact, ...options]);
    t.is(again.exitCode, 0);
    t.regex(again.stderr, /was already withdrawn/u);
    // The partner reports it again.
    const [repeated] = await recordPlantingFacts(
      stage.setup.deps,
      stage.order.id,
      [planted],
      "partner",
    );
    t.is(repeated?.outcome, "withdrawn");
    t.deepEqual(await stage.readTree(), after);

    const reinstated = await stage.run(["reinstate", fact, "--reason", "it was right"]);
    t.is(reinstated.exitCode, 0, reinstated.stderr);
    const entries = await runImpact(["audit", "list", "--action", "evidence.reinstate", "--json"], {
      env: { DATABASE_URL: t.context.databaseUrl },
    });
    t.like(readJson(entries), [{ reason: "it was right" }]);
    t.is((await stage.readTree()).status, "planted");
    t.deepEqual(await stage.planted(), [10]);
  },
);

test.serial("a fact is replaced in one step, and facts that need it stay in effect", async (t) => {
  const stage = await placeOrder(t);
  const { allocated, planted, verified } = stage.reports;
  await recordPlantingFacts(
    stage.setup.deps,
    stage.order.id,
    [allocated, planted, verified],
    "operator",
  );
  const [allocation] = allocated.allocations;
  const corrected = {
    ...allocated,
    allocations: [
      {
        ...allocation,
        planting_site: { ...allocation?.planting_site, reference: "S-9", name: "Right Bay" },
      },
    ],
  };
  const report = JSON.stringify({ order: stage.order.publicId, facts: [corrected] });
  const args = [
    "withdraw",
    await stage.numberOf("allocated"),
    "--reason",
    "wrong site",
    "--replacement",
    "-",
  ];
  const run = await stage.run(args, report);
  t.is(run.exitCode, 0, run.stderr);
  t.deepEqual(await stage.facts(), [
    "funds_distributed accepted",
    "allocated withdrawn",
    "planted accepted",
    "planted_and_verified accepted",
    "allocated accepted",
  ]);
  const tree = await stage.readTree();
  t.is(tree.status, "planted_and_verified");
  t.regex(JSON.stringify(tree), /Right Bay/u);
  t.deepEqual(await stage.planted(), [10]);
  t.is((await stage.run(args, report)).exitCode, 0);
  t.is((await stage.facts()).length, 5);

  const foreign = await stage.run(args, JSON.stringify({ order: "po_other", facts: [corrected] }));
  t.not(foreign.exitCode, 0);
  t.regex(foreign.stderr, /the replacement is of po_other/u);
});

test.serial(
  "withdrawing a fact lets later ones wait, and decides its contradictions again",
  async (t) => {
    const stage = await placeOrder(t);
    const { allocated, planted } = stage.reports;
    const later = { ...allocated, occurred_at: "2026-05-11T08:00:00.000Z" };
    await recordPlantingFacts(
      stage.setup.deps,
      stage.order.id,
      [allocated, planted, later],
      "callback",
    );
    t.is((await stage.facts())[3], "allocated contradiction");

    const first = await stage.numberOf("allocated");
    const withdrawn = await stage.run(["withdraw", first, "--reason", "wrong day"]);
    t.is(withdrawn.exitCode, 0);
    t.regex(withdrawn.stdout, new RegExp(`^${first} +allocated +accepted +withdrawn$`, "mu"));
    t.deepEqual(await stage.facts(), [
      "funds_distributed accepted",
      "allocated withdrawn",
      "planted accepted",
      "allocated accepted",
    ]);

    const second = await stage.numberOf("allocated");
    t.is((await stage.run(["withdraw", second, "--reason", "wrong as well"])).exitCode, 0);
    t.deepEqual((await stage.facts()).slice(2), ["planted waiting", "allocated withdrawn"]);
    t.is((await stage.readTree()).status, "funds_distributed");

    t.is((await stage.run(["reinstate", first, "--reason", "right"])).exitCode, 0);
    const contradicting = await stage.run(["reinstate", second, "--reason", "right, too"]);
    t.is(contradicting.exitCode, 1);
    t.regex(contradicting.stderr, /did not take effect, because it contradicts recorded facts\./u);
    t.is((await stage.facts())[3], "allocated contradiction");
  },
);

test.serial("a fact that does not exist or is not withdrawn is rejected", async (t) => {
  const stage = await placeOrder(t);
  const missing = await stage.run(["withdraw", "999999999", "--reason", "x"]);
  t.not(missing.exitCode, 0);
  t.regex(missing.stderr, /fact 999999999 not found/u);
  t.is((await stage.run(["withdraw", "1"])).exitCode, 2);
  const fact = await stage.numberOf("funds_distributed");
  const kept = await stage.run(["reinstate", fact, "--reason", "x"]);
  t.regex(kept.stderr, new RegExp(`fact ${fact} is not withdrawn`, "u"));
});

test("a report on an order whose workflow has ended prints no warning", async (t) => {
  const setup = await setUpPlanting(t.context.db, { partner: "manual" });
  await setup.register(3);
  await createAndPlace(setup);
  const [order] = await setup.orders();
  const { namespace, client } = await openNamespace(t);
  const workflowId = await setup.workflowIdOf(order?.id ?? 0);
  const handle = await client.workflow.start(plantingOrder, {
    workflowId,
    taskQueue: "without-workers",
    args: [order?.id ?? 0],
  });
  await handle.terminate();
  const { publicId = "", treeCount = 0 } = order ?? {};
  const run = await runImpact(["evidence", "record", "-"], {
    env: {
      DATABASE_URL: t.context.databaseUrl,
      TEMPORAL_ADDRESS,
      TEMPORAL_NAMESPACE: namespace,
    },
    clock: setup.clock,
    stdin: JSON.stringify({
      order: publicId,
      facts: [simulateVerified({ publicId, treeCount }, new Date("2026-05-01T10:00:00.000Z"))],
    }),
  });
  t.is(run.exitCode, 0, run.stderr);
  t.notRegex(run.stderr, /workflow/u);
});

test.serial("a poll that began before a fact was withdrawn finishes no order", async (t) => {
  const { db, databaseUrl } = t.context;
  const { setup, order, reports, numberOf } = await placeOrder(t);
  const { deps } = setup;
  await recordPlantingFacts(deps, order.id, [reports.allocated, reports.planted], "operator");
  const fact = Number(await numberOf("planted"));
  const locker = new Client({ connectionString: databaseUrl });
  await locker.connect();
  t.teardown(() => locker.end());
  const awaitLockWaits = (count: number): Promise<void> =>
    eventually(async () => {
      const waiting = await db.any(sql.typeAlias("void")`
        SELECT
        FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'
      `);
      return waiting.length === count;
    });

  await locker.query(`BEGIN; SELECT FROM planting_order WHERE id = ${order.id} FOR UPDATE`);
  const withdrawal = withdrawPlantingFact(
    { ...deps, actor: OPERATOR, wakeOrder: () => Promise.resolve() },
    fact,
    { reason: "photos of another site", replacement: null, isDryRun: false },
  );
  await awaitLockWaits(1);
  // It has read that the trees are planted, and waits to record that the order is finished.
  const poll = pollPlantingOrder(deps, order.id, new AbortController().signal);
  await awaitLockWaits(2);
  await locker.query("COMMIT");

  t.is((await withdrawal).stageAfter, "allocated");
  t.false((await poll).isFinished);
  t.true(
    await db.exists(sql.typeAlias("void")`
      SELECT FROM planting_order WHERE id = ${order.id} AND finished_at IS NULL
    `),
  );
});

test.serial(
  "the summary counts planted trees again with the next request after a withdrawal is undone",
  async (t) => {
    const [stage, other] = [await placeOrder(t), await placeOrder(t)];
    for (const { setup, order, reports } of [stage, other]) {
      const { allocated, planted } = reports;
      await recordPlantingFacts(setup.deps, order.id, [allocated, planted], "operator");
    }
    const fact = await stage.numberOf("planted");
    t.is((await stage.run(["withdraw", fact, "--reason", "another site"])).exitCode, 0);
    const { trees_planted: withoutOrder } = (await stage.readSummary()).summary;

    t.is((await stage.run(["reinstate", fact, "--reason", "it was right"])).exitCode, 0);

    t.is((await stage.readSummary()).summary.trees_planted, withoutOrder + 10);
  },
);

test.serial("facts that replace an already withdrawn one are in the audit log", async (t) => {
  const stage = await placeOrder(t);
  const { allocated, planted } = stage.reports;
  await recordPlantingFacts(stage.setup.deps, stage.order.id, [allocated], "operator");
  const args = ["withdraw", await stage.numberOf("allocated"), "--reason", "another order's"];
  t.is((await stage.run(args)).exitCode, 0);
  const replacement = JSON.stringify({ order: stage.order.publicId, facts: [planted] });

  t.is((await stage.run([...args, "--replacement", "-"], replacement)).exitCode, 0);

  t.is((await stage.facts()).at(-1), "planted waiting");
  const listed = await runImpact(
    ["audit", "list", "--action", "evidence.withdraw", "--limit", "1", "--json"],
    { env: { DATABASE_URL: t.context.databaseUrl } },
  );
  t.like(readJson(listed), [
    { details: { replacement: [{ stage: "planted", outcome: "waiting", reason: null }] } },
  ]);
});

test.serial("reports and polls of an order do not read its contradictions", async (t) => {
  const { setup, order, reports } = await placeOrder(t);
  const { allocated, planted } = reports;
  const other = { ...allocated, occurred_at: "2026-05-11T08:00:00.000Z" };
  await recordPlantingFacts(setup.deps, order.id, [allocated, other], "callback");
  await t.context.db.query(sql.typeAlias("void")`
    UPDATE planting_fact
    SET content = '{}'
    WHERE order_id = ${order.id} AND state = 'contradiction'
  `);

  const recorded = await recordPlantingFacts(setup.deps, order.id, [planted], "callback");
  const poll = await pollPlantingOrder(setup.deps, order.id, new AbortController().signal);

  t.deepEqual(recorded, [{ stage: "planted", outcome: "accepted", reason: null }]);
  t.true(poll.isFinished);
});
