import { z } from "zod";
import {
  insertProcessorEvent,
  saveUsageRejection,
} from "../../../modules/billing/processorEvents/processorEvents.sql.ts";
import { sql } from "../../../db/sql.ts";
import { shardOf } from "../../../db/shards.rules.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { getDeploymentName } from "../../../modules/billing/deploymentName.ts";
import { readJson, impactOf } from "../../cli/runImpact.ts";
import { startStoreApiOf } from "../../stores/startStoreApi.ts";
import { testWithDatabase } from "../../support/database.ts";
import { skipIds } from "../../support/skipIds.ts";
import { setCustomer, setUpUsage, listedEvent } from "./usageSetup.ts";
import { usageShardWorkflowId } from "../../../runtime/temporalNames.rules.ts";

const test = testWithDatabase();

test.before((t) => skipIds(t.context.owner, "reconciliation_difference"));

const statement = z.looseObject({
  meters: z.array(
    z.looseObject({
      meter: z.string(),
      days: z.array(z.looseObject({ day: z.string() })),
      totals: z.record(z.string(), z.int()),
      processors: z.array(z.looseObject({})).optional(),
    }),
  ),
});

test.serial("a statement adds up, and says that the processor agrees", async (t) => {
  const scene = await setUpUsage(t);
  await scene.register(4);
  await scene.drain();
  await setCustomer(scene);
  const billed = await scene.register(9);
  await scene.refund(billed, 2);
  await scene.drain();
  await scene.register(5);
  const args = ["statement", "--org", scene.id, "--period", scene.month];
  const run = await scene.impact(...args, "--json");
  t.is(run.exitCode, 0, run.stderr);
  const [tree, bottle] = statement.parse(readJson(run)).meters;
  t.deepEqual(tree?.totals, {
    registered: 18,
    refunded: 2,
    reported: 7,
    late: 0,
    failed: 4,
    waived: 0,
    settled: 0,
    held: 0,
    pending: 5,
  });
  t.is(tree?.days[0]?.day.slice(0, 7), scene.month);
  t.true(
    tree?.processors?.some(
      ({ delivered, processor_quantity: theirs, agrees }) =>
        delivered === 7 && theirs === 7 && agrees === true,
    ),
  );
  t.deepEqual(bottle?.days, []);
  const human = await scene.impact(...args);
  t.is(human.exitCode, 0, human.stderr);
  t.regex(human.stdout, /tree +total +18 +2 +7 +0 +4 +0 +0 +0 +5\n/u);
  t.regex(human.stderr, /stripe has 7, delivered 7: they agree/u);
});

test.serial(
  "if the processor's sum differs, the exit code is 1 until the difference is acknowledged",
  async (t) => {
    const scene = await setUpUsage(t);
    await setCustomer(scene);
    scene.double.control.addFault({ kind: "reject_later" });
    await scene.register(9);
    await scene.drain();
    const args = ["statement", "--org", scene.id, "--period", scene.month];
    const lagging = await scene.impact(...args, "--json");
    t.is(lagging.exitCode, 0, "Stripe's sums may lag");
    t.like(statement.parse(readJson(lagging)).meters[0]?.processors?.[0], {
      agrees: false,
      needs_attention: false,
    });
    const differing = await scene.impactLater(...args);
    t.is(differing.exitCode, 1);
    t.regex(differing.stdout, /tree +total +9 /u, "the statement is printed all the same");
    t.regex(
      differing.stderr,
      /does not confirm the statement: 1 of its sums differs, 0 could not be read/u,
    );
    const json = await scene.impactLater(...args, "--json");
    t.is(json.exitCode, 1);
    t.like(statement.parse(readJson(json)).meters[0]?.processors?.[0], {
      agrees: false,
      needs_attention: true,
      error: null,
    });
    const reconciled = await scene.impactLater("usage", "reconcile", "--org", scene.id);
    t.regex(
      reconciled.stderr,
      /lacks exactly event (?<event>\d+)\. To send it again, run: impact usage reopen \k<event> /u,
    );
    const id = /acknowledge-drift (?<id>\d+)/u.exec(reconciled.stderr)?.groups?.["id"] ?? "";
    const printed = [...reconciled.stdout.matchAll(new RegExp(`^${id} `, "gmu"))];
    t.is(printed.length, 2, "as acknowledge-drift takes it");
    await scene.impact("usage", "acknowledge-drift", id, "--reason", "credit note 4");
    const acknowledged = await scene.impactLater(...args);
    t.is(acknowledged.exitCode, 0);
    t.regex(acknowledged.stderr, /they differ by usage that .* is acknowledged\./u);
  },
);

test.serial("the details of a statement are NDJSON or CSV, page by page", async (t) => {
  const scene = await setUpUsage(t);
  const id = await scene.register(3);
  // A formula for a spreadsheet, and a control sequence for a terminal.
  const attribution = '=1+1, "x"\u009B2J';
  await t.context.db.query(sql.typeAlias("void")`
    UPDATE registration SET attribution = ${attribution} WHERE id = ${id}
  `);
  await t.context.db.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at)
    SELECT gen_random_uuid(), ${scene.id}, 'live', 'bottle', 1, now() - interval '1 second'
    FROM generate_series(1, 2500)
  `);
  const args = ["statement", "--org", scene.id, "--period", scene.month, "--detail"];
  const lines = (await scene.impact(...args)).stdout.trimEnd().split("\n");
  t.is(lines.length, 2501);
  t.is(new Set(lines).size, 2501);
  t.like(JSON.parse(lines[0] ?? ""), {
    registration_id: id,
    count: 3,
    usage_states: "unsealed",
    attribution,
  });
  t.notRegex(lines[0] ?? "", /\p{Cc}/u);
  const csv = (await scene.impact(...args, "--csv")).stdout.split("\r\n");
  t.is(csv.length, 2503);
  t.true(csv[1]?.includes(`"'=1+1, ""x""\\u009B2J"`), csv[1]);
});

test.serial("a store's statement has what was paid from its balance", async (t) => {
  const { post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  const month = new Date().toISOString().slice(0, 7);
  await post("/app/api/plant", store.live, { trees: 4 });
  await post("/app/api/refund", store.live, { type: "tree", quantity: 1 });
  const impact = impactOf(t);
  const args = ["statement", "--org", store.id, "--period", month];
  const run = await impact(...args, "--json");
  t.is(run.exitCode, 0, run.stderr);
  t.deepEqual(statement.parse(readJson(run)).meters[0]?.totals, {
    registered: 4,
    refunded: 1,
    paid_cents: 200,
    returned_cents: 50,
  });
  const csv = await impact(...args, "--csv");
  t.true(csv.stdout.startsWith("meter,day,registered,refunded,paid_cents,returned_cents\r\n"));
});

test.serial("an unknown account or period is refused", async (t) => {
  const impact = impactOf(t);
  const unknown = ["statement", "--org", crypto.randomUUID(), "--period"];
  t.is((await impact(...unknown, "2026-05")).exitCode, 3);
  t.is((await impact(...unknown, "2026-05", "--detail")).exitCode, 3);
  t.is((await impact(...unknown, "2026-13")).exitCode, 2);
});

test.serial("usage list filters pending, delivered and failed usage", async (t) => {
  const scene = await setUpUsage(t);
  const states = async (...filter: readonly string[]): Promise<readonly string[]> => {
    const run = await scene.impact("usage", "list", "--org", scene.id, "--json", ...filter);
    t.is(run.exitCode, 0);
    return z
      .array(listedEvent)
      .parse(readJson(run))
      .map(({ state }) => state);
  };
  await scene.register(1, "test");
  t.deepEqual(await states("--state", "pending"), ["unsealed"]);
  t.deepEqual(await states("--state", "delivered"), []);
  await scene.drain("test");
  await scene.register(3);
  await scene.drain();
  t.deepEqual(await states("--state", "pending"), []);
  t.deepEqual(await states("--state", "delivered"), ["delivered"]);
  t.deepEqual(await states("--state", "failed"), ["rejected"]);
  t.deepEqual(await states(), ["rejected", "delivered"]);
  const human = await scene.impact("usage", "list", "--org", scene.id, "--limit", "1");
  t.is(human.stdout.trimEnd().split("\n").length, 2);
  t.regex(human.stdout, /No such customer/u);
  t.regex(human.stderr, /Showing the first 1\. /u);
});

test.serial("usage show prints the facts, all sealings of the second and workflows", async (t) => {
  const scene = await setUpUsage(t);
  const registration = await scene.register(5);
  await scene.drain();
  await scene.refund(registration, 2);
  const name = await getDeploymentName({ db: t.context.db, clock: systemClock });
  const run = await scene.impact("usage", "show", registration, "--json");
  t.is(run.exitCode, 0);
  const shown = z
    .looseObject({
      facts: z.array(z.looseObject({ quantity: z.int(), meter_event_id: z.int().nullable() })),
      meter_events: z.array(
        z.looseObject({
          identifier: z.string(),
          state: z.string(),
          attempts: z.int(),
          last_error: z.string().nullable(),
        }),
      ),
    })
    .parse(readJson(run));
  t.like(shown, {
    registration_id: registration,
    account_id: scene.id,
    count: 5,
    refunded_count: 2,
    workflows: {
      sender: usageShardWorkflowId(name, shardOf(scene.id)),
      refund: `${name}/refund-${registration}`,
    },
  });
  t.deepEqual(
    shown.facts.map(({ quantity }) => quantity),
    [5, -2],
  );
  const [sealing] = shown.meter_events;
  t.like(sealing, { state: "rejected", attempts: 1 });
  t.regex(sealing?.last_error ?? "", /No such customer/u);
  t.true(sealing?.identifier.startsWith(`u1:${scene.id}:live:tree:`));
  const human = await scene.impact("usage", "show", registration);
  t.regex(human.stderr, /impact usage retry \d+/u);
});

test.serial(
  "usage reconcile succeeds after a drain and exits with 1 if the processor has more",
  async (t) => {
    const scene = await setUpUsage(t);
    await setCustomer(scene);
    await scene.register(9);
    await scene.drain();
    const tomorrow = new Date(Date.now() + 24 * 60 * 60 * 1000).toISOString();
    const args = ["usage", "reconcile", "--org", scene.id, "--until", tomorrow];
    const agreed = await scene.impact(...args);
    t.is(agreed.exitCode, 0, agreed.stderr);
    t.regex(agreed.stdout, /live +tree +stripe +cus_\S+ +9 +9 +0/u);
    scene.double.control.changeSettings({ summaryDelaySeconds: 120 });
    const lagging = await scene.impact(...args);
    t.is(lagging.exitCode, 0, lagging.stderr);
    t.regex(lagging.stdout, / 9 +0 +may lag\n/u);
    scene.double.control.changeSettings({ summaryDelaySeconds: 0 });
    // Another program reports usage of the same customer.
    const customer = scene.double.control.usage({})[0]?.customer ?? "";
    await fetch(`${scene.double.url}/v1/billing/meter_events`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${scene.double.secretKey}`,
        "content-type": "application/x-www-form-urlencoded",
      },
      body: new URLSearchParams({
        event_name: "impact_tree_planted",
        "payload[stripe_customer_id]": customer,
        "payload[value]": "5",
      }),
    });
    const drifted = await scene.impact(...args, "--json");
    t.is(drifted.exitCode, 1);
    t.like(readJson(drifted), {
      streams: [{ delivered: 9, processor_quantity: 14, drift: 5 }],
    });
    t.regex(drifted.stderr, /1 differs at the processor/u);
  },
);

test.serial(
  "usage list and reconcile name rejections of which Stripe named only some events",
  async (t) => {
    const scene = await setUpUsage(t);
    const { db } = t.context;
    const now = new Date();
    await insertProcessorEvent(
      db,
      { id: "evt_report", type: "report", objectId: null, createdAt: now },
      now,
    );
    await saveUsageRejection(
      db,
      "evt_report",
      { windowStart: now, windowEnd: now, rejections: [] },
      { code: "archived_meter", errors: 12, named: 5, leftEventIds: [] },
    );
    const list = await scene.impact("usage", "list", "--state", "failed");
    t.regex(list.stderr, /Stripe rejected 7 events that it did not name \(archived_meter\)/u);
    t.regex((await scene.impact("usage", "reconcile")).stderr, /Stripe rejected 7 events/u);
    t.like(readJson(await scene.impact("usage", "reconcile", "--json")), {
      unnamed_rejections: [{ code: "archived_meter", events: 7, received_from: now.toISOString() }],
    });
  },
);

test.serial("usage show says why a registration has no usage", async (t) => {
  const scene = await setUpUsage(t);
  const { post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  await post("/app/api/plant", store.live, { trees: 3 });
  const id = await t.context.db.oneFirst(sql.type(z.strictObject({ id: z.uuid() }))`
    SELECT id FROM registration WHERE account_id = ${store.id}
  `);
  const prepaid = await scene.impact("usage", "show", id);
  t.regex(prepaid.stdout, /billing +prepaid/u);
  await post("/app/api/refund", store.live, { type: "tree", quantity: 1 });
  const reversed = await scene.impact("usage", "show", id);
  t.regex(reversed.stdout, /refunded +1\n/u);
  t.regex(reversed.stdout, /refund workflow +-\n/u);
  t.regex(prepaid.stderr, /paid from the store's balance/u);
  t.notRegex(prepaid.stderr, /imported/u);

  const importedId = crypto.randomUUID();
  await t.context.db.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at)
    VALUES (${importedId}, ${scene.id}, 'live', 'tree', 1, now())
  `);
  const imported = await scene.impact("usage", "show", importedId);
  t.regex(imported.stderr, /it was imported, so it is not billed and cannot be refunded/u);
});

test.serial(
  "usage reconcile names the events and registrations of drift, stores them, and acknowledges them",
  async (t) => {
    const scene = await setUpUsage(t);
    await setCustomer(scene);
    scene.double.control.addFault({ kind: "reject_later" });
    const registration = await scene.register(9);
    await scene.drain();

    const drifted = await scene.impactLater("usage", "reconcile");
    const last = await scene.impact("usage", "show-reconciliation");
    const id = /acknowledge-drift (?<id>\d+)/u.exec(last.stderr)?.groups?.["id"] ?? "";
    const note = ["--reason", "credit note 17", "--as", "ada"];
    const acknowledged = await scene.impact("usage", "acknowledge-drift", id, ...note);
    const partly = await scene.impact("usage", "acknowledge-drift", id, "999999", ...note);
    const again = await scene.impactLater("usage", "reconcile");
    const cleared = await scene.impact("usage", "show-reconciliation", "--json");
    const unknown = await scene.impact("usage", "acknowledge-drift", "999999", ...note);

    t.is(drifted.exitCode, 1);
    for (const run of [drifted, last]) {
      t.is(run.exitCode, 1);
      t.regex(run.stdout, new RegExp(`delivered .* 9 +${registration}`, "u"));
      t.regex(run.stderr, new RegExp(`impact usage show ${registration}`, "u"));
    }
    t.is(acknowledged.exitCode, 0, acknowledged.stderr);
    t.regex(acknowledged.stdout, / -9\n/u);
    t.regex(acknowledged.stderr, /Acknowledged by ada/u);
    // The customers of the other tests' organizations are unknown to this test's Stripe.
    t.regex(again.stdout, / 9 +0 +-9 +-9 +0 +0\n/u);
    t.regex(again.stderr, /: 0 differ at the processor/u);
    t.like(readJson(cleared), { result: "succeeded", drifting: 0, drift_units: 0 });
    t.is(partly.exitCode, 1);
    t.is(unknown.exitCode, 3);
  },
);
