import { signCallback } from "../../../api/http/signatures.ts";
import type { PlantingFact } from "../../../modules/planting/fact.rules.ts";
import { simulatePlanted } from "../../../modules/planting/simulated/simulatedFacts.ts";
import { startStandaloneApi } from "../../api/startStandaloneApi.ts";
import { readJson, runImpact } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import { placeOrders, setUpPlanting } from "../setUpPlanting.ts";

const test = testWithDatabase();

const SECRET = "a shared secret of both sides";

test.serial("a repeated fact changes nothing, in whatever time zone it is written", async (t) => {
  const { setup, order, allocated, report } = await placeOrders(t.context.db);
  t.deepEqual(await report(allocated), ["accepted"]);
  const [before] = await setup.orders();
  t.deepEqual(await report(allocated, allocated), ["repeated", "repeated"]);
  const env = { DATABASE_URL: t.context.databaseUrl };
  const run = await runImpact(["evidence", "record", "-", "--json"], {
    env,
    clock: setup.clock,
    stdin: JSON.stringify({
      order: order.publicId,
      facts: [{ ...allocated, occurred_at: "2026-05-10T10:00:00+02:00" }],
    }),
  });
  t.is(run.exitCode, 0, run.stderr);
  t.deepEqual(readJson(run), [{ stage: "allocated", outcome: "repeated", reason: null }]);
  t.deepEqual((await setup.orders())[0], before);
  const listed = await runImpact(["audit", "list", "--action", "evidence.record", "--json"], {
    env,
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
    const { setup, order, allocated, verified, report } = await placeOrders(t.context.db);
    const record = (timeline: string, facts: readonly PlantingFact[], publicId = order.publicId) =>
      runImpact(["evidence", "record", "-", "--json"], {
        env: { DATABASE_URL: t.context.databaseUrl },
        clock: setup.clock,
        stdin: JSON.stringify({ order: publicId, timeline, facts }),
      });
    t.deepEqual(await report(verified), ["waiting"]);
    const first = await record("sessions", [verified]);
    t.is(first.exitCode, 0, first.stderr);
    t.like((await setup.orders())[0], { timeline: "sessions", stage: "planted_and_verified" });
    t.is((await record("sessions", [verified])).exitCode, 0);
    const late = await record("allocations", [allocated]);
    t.not(late.exitCode, 0);
    t.regex(
      late.stderr,
      /timeline: is sessions, and cannot change because the order is planted_and_verified/u,
    );

    const simulated = await setUpPlanting(t.context.db);
    await simulated.order(1);
    const [other] = await simulated.orders();
    const foreign = await record("sessions", [verified], other?.publicId);
    t.regex(foreign.stderr, /timeline: is allocations, as the partner simulated decides/u);
  },
);

test.serial("operators see contradictions, and the sites and photos of each fact", async (t) => {
  const { order, allocated, planted, verified, numberOf, report } = await placeOrders(t.context.db);
  await report(allocated, planted, verified);
  await report(simulatePlanted(order, new Date("2026-06-15T08:00:00.000Z")));
  const env = { DATABASE_URL: t.context.databaseUrl };
  const listed = await runImpact(["evidence", "order", "list", "--contradicted", "--json"], {
    env,
  });
  t.like(readJson(listed), { 0: { public_id: order.publicId, stage: "planted_and_verified" } });
  const shown = await runImpact(["evidence", "order", "show", order.publicId], { env });
  t.is(shown.exitCode, 0);
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

test.serial(
  "an invalid file is rejected with the problem of each field, and nothing of it is recorded",
  async (t) => {
    const { setup, order, allocated, planted, states } = await placeOrders(t.context.db);
    const env = { DATABASE_URL: t.context.databaseUrl };
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
    t.is((await states()).length, 1);
    const unknown = await runImpact(["evidence", "record", "-"], {
      env,
      stdin: JSON.stringify({ order: "po_unknown", facts: [allocated] }),
    });
    t.is(unknown.exitCode, 3);
  },
);

test.serial("a signed callback is recorded; any other is rejected", async (t) => {
  const { setup, order, allocated, states } = await placeOrders(t.context.db);
  const { url, checkResponse } = await startStandaloneApi(t, {
    db: t.context.db,
    clock: setup.clock,
    plantingCallbackSecrets: ["the secret that replaces it", SECRET],
  });
  const now = Math.floor(setup.clock.now().getTime() / 1000);
  const body = JSON.stringify({ order: order.publicId, facts: [allocated] });
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
  t.deepEqual(await send(bothSigned), {
    status: 200,
    json: {
      order: order.publicId,
      results: [{ stage: "allocated", outcome: "accepted", reason: null }],
    },
  });
  t.like(await send(sign(body)), { json: { results: [{ outcome: "repeated" }] } });

  const unknown = JSON.stringify({ order: "po_unknown", facts: [allocated] });
  t.is((await send(sign(unknown), unknown)).status, 404);
  const malformed = JSON.stringify({ order: order.publicId, facts: [{ stage: "planted" }] });
  t.is((await send(sign(malformed), malformed)).status, 400);
});

test.serial("without a secret the callback does not exist", async (t) => {
  const { url } = await startStandaloneApi(t, { db: t.context.db });
  const response = await fetch(`${url}/planting/callback`, { method: "POST" });
  t.is(response.status, 404);
});
