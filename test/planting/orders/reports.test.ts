import { z } from "zod";
import { renderEvidenceSummary } from "../../../api/endpoints/presentEvidenceSummary.ts";
import { renderTreeEvidence } from "../../../api/endpoints/presentTreeEvidence.ts";
import { signCallback } from "../../../api/http/signatures.ts";
import { sql } from "../../../db/sql.ts";
import { listFacts } from "../../../modules/planting/facts.sql.ts";
import type { PlantingFact } from "../../../modules/planting/fact.rules.ts";
import {
  simulateAllocated,
  simulatePlanted,
  simulateVerified,
} from "../../../modules/planting/simulated/simulatedFacts.ts";
import { pollPlantingOrder } from "../../../modules/planting/pollPlantingOrder.ts";
import { createSummaryReader } from "../../../modules/planting/createSummaryReader.ts";
import { readTreeEvidence } from "../../../modules/planting/readTreeEvidence.ts";
import { recordPlantingFacts } from "../../../modules/planting/recordPlantingFacts.ts";
import { plantingOrder } from "../../../workflows/plantingOrder.ts";
import { FACTS_RECORDED } from "../../../runtime/temporalNames.rules.ts";
import { startStandaloneApi } from "../../api/startStandaloneApi.ts";
import { readJson, impactOf, runImpact } from "../../cli/runImpact.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { testWithDatabase } from "../../support/database.ts";
import { openNamespace, TEMPORAL_ADDRESS } from "../../support/programs.ts";
import type { PlantingSetup } from "../setUpPlanting.ts";
import { setUpPlanting } from "../setUpPlanting.ts";
import type { ExecutionContext } from "ava";

const test = testWithDatabase();

const SECRET = "a shared secret of both sides";

/** Places an order with the manual partner and returns facts to report. */
const placeOrder = async (t: ExecutionContext<DatabaseContext>) => {
  const setup = await setUpPlanting(t.context.db, { partner: "manual" });
  await setup.register(10);
  await setup.createOrders();
  await setup.place();
  setup.clock.set("2026-06-30T10:00:00.000Z");
  const [order] = await setup.orders();
  if (!order) {
    throw new Error("There is an order.");
  }
  return {
    setup,
    order,
    facts: {
      allocated: simulateAllocated(order, new Date("2026-05-10T08:00:00.000Z")),
      planted: simulatePlanted(order, new Date("2026-06-01T08:00:00.000Z")),
      verified: simulateVerified(order, new Date("2026-06-20T08:00:00.000Z")),
    },
  };
};

const outcomesOf = async (
  setup: PlantingSetup,
  orderId: number,
  facts: readonly PlantingFact[],
): Promise<readonly string[]> => {
  const recorded = await recordPlantingFacts(setup.deps, orderId, facts, "operator");
  return recorded.map(({ outcome }) => outcome);
};

test.serial("facts in the wrong order wait and then take effect together", async (t) => {
  const { setup, order, facts } = await placeOrder(t);
  t.deepEqual(await outcomesOf(setup, order.id, [facts.verified, facts.planted]), [
    "waiting",
    "waiting",
  ]);
  t.is((await setup.orders())[0]?.stage, "funds_distributed");
  t.deepEqual(await outcomesOf(setup, order.id, [facts.allocated]), ["accepted"]);
  const [after] = await setup.orders();
  t.is(after?.stage, "planted_and_verified");
  t.is(after?.plantedAt?.toISOString(), "2026-06-01T08:00:00.000Z");
});

test.serial("a repeated fact changes nothing, in whatever time zone it is written", async (t) => {
  const { setup, order, facts } = await placeOrder(t);
  t.deepEqual(await outcomesOf(setup, order.id, [facts.allocated]), ["accepted"]);
  const [before] = await setup.orders();
  t.deepEqual(await outcomesOf(setup, order.id, [facts.allocated, facts.allocated]), [
    "repeated",
    "repeated",
  ]);
  const report = await runImpact(["evidence", "record", "-", "--json"], {
    env: { DATABASE_URL: t.context.databaseUrl, TEMPORAL_ADDRESS },
    clock: setup.clock,
    stdin: JSON.stringify({
      order: order.publicId,
      facts: [{ ...facts.allocated, occurred_at: "2026-05-10T10:00:00+02:00" }],
    }),
  });
  t.is(report.exitCode, 0, report.stderr);
  t.deepEqual(readJson(report), [{ stage: "allocated", outcome: "repeated", reason: null }]);
  t.deepEqual((await setup.orders())[0], before);
  const listed = await runImpact(["audit", "list", "--action", "evidence.record", "--json"], {
    env: { DATABASE_URL: t.context.databaseUrl },
  });
  t.like(readJson(listed), [
    {
      subject: String(order.id),
      details: { facts: [{ stage: "allocated", outcome: "repeated" }] },
    },
  ]);
});

test.serial(
  "a report gives an order of the manual partner three steps, until it is verified",
  async (t) => {
    const { setup, order, facts } = await placeOrder(t);
    const report = (
      timeline: string,
      reported: readonly PlantingFact[],
      publicId = order.publicId,
    ) =>
      runImpact(["evidence", "record", "-", "--json"], {
        env: { DATABASE_URL: t.context.databaseUrl, TEMPORAL_ADDRESS },
        clock: setup.clock,
        stdin: JSON.stringify({ order: publicId, timeline, facts: reported }),
      });
    t.deepEqual(await outcomesOf(setup, order.id, [facts.verified]), ["waiting"]);
    const first = await report("sessions", [facts.verified]);
    t.is(first.exitCode, 0, first.stderr);
    t.like((await setup.orders())[0], { timeline: "sessions", stage: "planted_and_verified" });
    t.is((await report("sessions", [facts.verified])).exitCode, 0);
    const late = await report("allocations", [facts.allocated]);
    t.not(late.exitCode, 0);
    t.regex(
      late.stderr,
      /timeline: is sessions, and cannot change because the order is planted_and_verified/u,
    );

    const simulated = await setUpPlanting(t.context.db);
    await simulated.register(1);
    await simulated.createOrders();
    const [other] = await simulated.orders();
    const foreign = await report("sessions", [facts.verified], other?.publicId);
    t.regex(foreign.stderr, /timeline: is allocations, as the partner simulated decides/u);
  },
);

test.serial("a contradiction is stored for operators and changes nothing", async (t) => {
  const { setup, order, facts } = await placeOrder(t);
  await outcomesOf(setup, order.id, [facts.allocated, facts.planted]);
  const [before] = await setup.orders();
  const other = simulatePlanted(order, new Date("2026-06-15T08:00:00.000Z"));
  t.deepEqual(await outcomesOf(setup, order.id, [other, other]), ["contradiction", "repeated"]);
  t.deepEqual(
    await outcomesOf(setup, order.id, [
      simulateVerified(order, new Date("2026-05-20T08:00:00.000Z")),
    ]),
    ["contradiction"],
  );
  t.deepEqual((await setup.orders())[0], before);
  const listed = await runImpact(["evidence", "order", "list", "--contradicted", "--json"], {
    env: { DATABASE_URL: t.context.databaseUrl },
  });
  t.like(readJson(listed), { 0: { public_id: order.publicId, stage: "planted" } });
  const shown = await runImpact(["evidence", "order", "show", order.publicId], {
    env: { DATABASE_URL: t.context.databaseUrl },
  });
  t.is(shown.exitCode, 0);
  t.regex(shown.stdout, /planted is already recorded with different details/u);
  t.regex(shown.stdout, /planted_and_verified is dated 2026-05-20.*, but planted 2026-06-01/u);
});

test.serial(
  "an order is polled until its timeline is complete, and a later verification is recorded",
  async (t) => {
    const { setup, order, facts } = await placeOrder(t);
    const poll = () => pollPlantingOrder(setup.deps, order.id, new AbortController().signal);
    await outcomesOf(setup, order.id, [facts.allocated]);
    t.false((await poll()).isFinished);
    await outcomesOf(setup, order.id, [facts.planted]);
    t.true((await poll()).isFinished);
    t.deepEqual(await outcomesOf(setup, order.id, [facts.verified]), ["accepted"]);
    t.is((await setup.orders())[0]?.stage, "planted_and_verified");
    t.true((await poll()).isFinished);
  },
);

test.serial("concurrent reports record each fact once", async (t) => {
  const { setup, order, facts } = await placeOrder(t);
  const all = [facts.verified, facts.planted, facts.allocated];
  await Promise.all(
    Array.from({ length: 12 }, (_, index) =>
      outcomesOf(setup, order.id, [all[index % 3] ?? facts.allocated]),
    ),
  );
  const stored = await listFacts(t.context.db, order.id);
  t.deepEqual(stored.map(({ stage, state }) => `${stage} ${state}`).toSorted(), [
    "allocated accepted",
    "funds_distributed accepted",
    "planted accepted",
    "planted_and_verified accepted",
  ]);
});

test.serial(
  "an invalid file is rejected with the problem of each field, and nothing of it is recorded",
  async (t) => {
    const { setup, order, facts } = await placeOrder(t);
    const env = { DATABASE_URL: t.context.databaseUrl, TEMPORAL_ADDRESS };
    const [allocation] = facts.allocated.allocations;
    const wrong = {
      order: order.publicId,
      facts: [
        {
          ...facts.allocated,
          allocations: [
            { ...allocation, crew: { ...allocation?.crew, women_members: 99_999 }, notes: "x" },
          ],
        },
        {
          ...facts.planted,
          occurred_at: "yesterday",
          media: [{ ...facts.planted.media[0], url: "https://x;script-src/a.jpg" }],
        },
      ],
    };
    const run = await runImpact(["evidence", "record", "-"], {
      env,
      clock: setup.clock,
      stdin: JSON.stringify(wrong),
    });
    t.is(run.exitCode, 1);
    t.regex(run.stderr, /women_members must not exceed total_members/u);
    t.regex(run.stderr, /facts\.0\.allocations\.0\.notes: unknown field/u);
    t.regex(run.stderr, /facts\.1\.occurred_at: must be a timestamp/u);
    t.regex(run.stderr, /facts\.1\.media\.0\.url: must be an http:\/\/ or https:\/\/ URL/u);
    t.is((await listFacts(t.context.db, order.id)).length, 1);
    const unknown = await runImpact(["evidence", "record", "-"], {
      env,
      stdin: JSON.stringify({ order: "po_unknown", facts: [facts.allocated] }),
    });
    t.is(unknown.exitCode, 3);
  },
);

test.serial(
  "a signed callback is recorded and wakes the order's workflow; any other is rejected",
  async (t) => {
    const { setup, order, facts } = await placeOrder(t);
    const { client } = await openNamespace(t);
    const workflow = await client.workflow.start(plantingOrder, {
      workflowId: await setup.workflowIdOf(order.id),
      taskQueue: "without-workers",
      args: [order.id],
    });
    const countSignals = async (): Promise<number> =>
      ((await workflow.fetchHistory()).events ?? []).filter(
        ({ workflowExecutionSignaledEventAttributes: signal }) =>
          signal?.signalName === FACTS_RECORDED,
      ).length;
    const { url, checkResponse } = await startStandaloneApi(t, {
      db: t.context.db,
      clock: setup.clock,
      plantingCallbackSecrets: ["the secret that replaces it", SECRET],
      openTemporal: () => Promise.resolve(client),
    });
    const now = Math.floor(setup.clock.now().getTime() / 1000);
    const body = JSON.stringify({ order: order.publicId, facts: [facts.allocated] });
    const send = async (signature: string | null, text = body) => {
      const response = await fetch(`${url}/planting/callback`, {
        method: "POST",
        headers: {
          "Content-Type": "application/json",
          ...(signature === null ? {} : { "Planting-Signature": signature }),
        },
        body: text,
      });
      const responseText = await response.text();
      checkResponse({
        method: "POST",
        path: "/planting/callback",
        status: response.status,
        contentType: response.headers.get("Content-Type"),
        text: responseText,
      });
      return { status: response.status, json: JSON.parse(responseText) as unknown };
    };
    const sign = (text: string, second = now): string =>
      `t=${second},v1=${signCallback(SECRET, text, second)}`;

    const rejected: readonly (readonly [string | null, string])[] = [
      [null, "missing Planting-Signature header"],
      ["nonsense", "malformed Planting-Signature header"],
      [`t=${now},v1=${"0".repeat(64)}`, "invalid signature"],
      [sign(`${body} `), "invalid signature"],
      [sign(body, now - 301), "signature is too old"],
      [sign(body, now + 301), "signature is too old"],
    ];
    for (const [signature, error] of rejected) {
      t.deepEqual(await send(signature), { status: 401, json: { error } });
    }
    t.is((await listFacts(t.context.db, order.id)).length, 1);
    t.is(await countSignals(), 0);

    const accepted = {
      status: 200,
      json: {
        order: order.publicId,
        results: [{ stage: "allocated", outcome: "accepted", reason: null }],
      },
    };
    // While a secret is replaced a partner signs with both.
    t.deepEqual(
      await send(`t=${now},v1=${"0".repeat(64)},${sign(body).split(",")[1] ?? ""}`),
      accepted,
    );
    t.like(await send(sign(body)), { json: { results: [{ outcome: "repeated" }] } });
    t.is(await countSignals(), 2);

    const unknown = JSON.stringify({ order: "po_unknown", facts: [facts.allocated] });
    t.is((await send(sign(unknown), unknown)).status, 404);
    const malformed = JSON.stringify({ order: order.publicId, facts: [{ stage: "planted" }] });
    t.is((await send(sign(malformed), malformed)).status, 400);
  },
);

test.serial("without a secret the callback does not exist", async (t) => {
  const { url } = await startStandaloneApi(t, { db: t.context.db });
  const response = await fetch(`${url}/planting/callback`, { method: "POST" });
  t.is(response.status, 404);
});

test.serial(
  "an operator can clear the cached response of one tree, of the summary or all of them",
  async (t) => {
    const { db } = t.context;
    const impact = impactOf(t);
    const clear = (...options: readonly string[]) =>
      impact("evidence", "cache", "clear", ...options, "--json");
    const cachedKeys = () =>
      db.anyFirst(sql.type(z.strictObject({ key: z.string() }))`
      SELECT key
      FROM cached_response
      ORDER BY key
    `);
    const { deps, organization, register, createOrders } = await setUpPlanting(db);
    const [first, second] = [await register(1), await register(2)];
    await createOrders();
    const readAll = async () => {
      const owner = { accountId: organization.id, mode: "live" } as const;
      await readTreeEvidence(deps, { ...owner, id: first }, renderTreeEvidence);
      await readTreeEvidence(deps, { ...owner, id: second }, renderTreeEvidence);
      await createSummaryReader(deps, renderEvidenceSummary)("live");
    };
    const all = ["summary/live/simulated", ...[`tree/${first}`, `tree/${second}`].toSorted()];
    await readAll();
    t.deepEqual(await cachedKeys(), all);

    t.deepEqual(readJson(await clear("--tree", first)), { dropped: 1 });
    t.deepEqual(await cachedKeys(), ["summary/live/simulated", `tree/${second}`]);
    t.deepEqual(readJson(await clear("--tree", first)), { dropped: 0 });
    t.deepEqual(readJson(await clear("--summary")), { dropped: 1 });
    t.deepEqual(await cachedKeys(), [`tree/${second}`]);
    await readAll();
    t.deepEqual(readJson(await clear("--all")), { dropped: 3 });
    t.deepEqual(await cachedKeys(), []);

    await readAll();
    t.is((await clear()).exitCode, 2);
    t.is((await clear("--tree", first, "--summary")).exitCode, 2);
    t.deepEqual(await cachedKeys(), all);
  },
);
