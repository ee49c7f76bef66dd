import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { listMeterEvents } from "../../../modules/billing/meterEventReports.sql.ts";
import { diagnose } from "../../cli/diagnose.ts";
import { readJson } from "../../cli/runImpact.ts";
import { startStoreApiOf } from "../../stores/startStoreApi.ts";
import { REFUSED } from "../../stripeDouble/faults.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization, registerFor } from "../../support/factories.ts";
import { skipIds } from "../../support/skipIds.ts";
import { listedEvent, setUpUsage } from "./usageSetup.ts";

const test = testWithDatabase().serial;

test.before((t) => skipIds(t.context.owner, "meter_event"));

test("usage list filters pending, delivered and failed usage", async (t) => {
  const scene = await setUpUsage(t);
  const states = async (...filter: readonly string[]): Promise<readonly string[]> => {
    const listed = await scene.usage.json("list", "--org", scene.id, ...filter);
    const events = z.array(listedEvent).parse(listed);
    return events.map(({ state }) => state);
  };
  await scene.register(1, "test");
  await scene.drain("test");
  await scene.send(3);
  t.deepEqual(await states("--state", "pending"), []);
  t.deepEqual(await states("--state", "delivered"), ["delivered"]);
  t.deepEqual(await states("--state", "failed"), ["failed"]);
  t.deepEqual(await states("--state", "late"), []);
  t.deepEqual(await states("--state", "difference"), []);
  t.deepEqual(await states(), ["failed", "delivered"]);
  t.deepEqual(await states("--period", scene.month), ["failed", "delivered"]);
  t.deepEqual(await states("--period", "2025-01-01/2025-02-01"), []);
  const human = await scene.usage("list", "--org", scene.id, "--limit", "1");
  t.is(human.stdout.trimEnd().split("\n").length, 2);
  t.regex(human.stdout, /No such customer/u);
  t.regex(human.stderr, /Showing the first 1\. /u);
});

test("usage explain prints a registration's events, and a plan that names what removes the cause", async (t) => {
  const scene = await setUpUsage(t);
  const registration = await scene.send(5);
  await scene.refund(registration, 2);
  const run = await scene.usage.json("explain", registration);
  const shown = z
    .looseObject({ meter_events: z.array(listedEvent.extend({ reason: z.string().nullable() })) })
    .parse(run);
  const ids = { registration_id: registration, account_id: scene.id, invoice_number: null };
  t.like(shown, { ...ids, count: 5, refunded_count: 2, billing: "failed" });
  const [event] = shown.meter_events;
  t.like(event, { state: "failed", failure: "refused", attempts: 1, quantity: 5 });
  t.regex(event?.reason ?? "", /No such customer/u);
  const item = event?.item ?? "";
  const human = await scene.usage("explain", registration);
  t.regex(human.stdout, new RegExp(`Its usage has failed: impact usage explain ${item}\n`, "u"));
  const mend = `impact org update ${scene.id} --stripe-customer cus_…`;
  const explained = await scene.usage.ok("explain", item.toLowerCase());
  t.true(explained.stdout.includes(registration));
  t.true(explained.stdout.includes(`1. Remove the cause: ${mend}\n`));
  t.true(explained.stdout.includes(`2. Send 5 units to Stripe: impact usage retry ${item}\n`));
  const overview = await scene.usage("--org", scene.id);
  t.true(overview.stdout.includes(`refused: ${mend}; impact usage retry ${item}\n`));
});

const closing = (name: string) => ["close", name, "--never-bill", "--reason", "test"];

test("a registration's usage, or an event, is closed only if it matches the filters", async (t) => {
  const scene = await setUpUsage(t);
  const registration = await scene.send(5);
  const [item = ""] = await scene.failedEvents();
  for (const filter of [
    ["--meter", "bottle"],
    ["--period", "2025-01"],
  ]) {
    for (const name of [registration, item]) {
      const refused = await scene.usage.fails(1, ...closing(name), ...filter);
      t.regex(refused, /Nothing of that is failed or late/u);
    }
  }
  await scene.usage.ok(...closing(registration), "--meter", "tree", "--period", scene.month);
  t.deepEqual(await scene.failedEvents(), []);
});

test("an organization is named by its name, a customer that it has had, or its id", async (t) => {
  const scene = await setUpUsage(t);
  const { db } = t.context;
  const name = `Orchard ${crypto.randomUUID()}`;
  await scene.impact("org", "update", scene.id, "--name", name);
  await scene.setCustomer();
  const earlier = await scene.setCustomer();
  await scene.setCustomer();
  await scene.send(4);
  for (const who of [scene.id, name, name.toUpperCase(), earlier]) {
    const run = await scene.usage.ok("explain", who);
    t.regex(run.stdout, new RegExp(`organization +${name} `, "u"));
    t.regex(run.stdout, /tree .* 4 +0 +4 /u);
    t.regex(run.stdout, /Nothing is open/u);
    await scene.usage.ok("list", "--org", who);
  }
  await createTestOrganization(db, { name });
  const ambiguous = await scene.usage.fails(2, "explain", name);
  t.regex(ambiguous, /2 accounts are named Orchard .*\. Pass an id/u);
  await scene.usage.fails(3, "explain", "no such name");
});

test("usage reconcile succeeds after a drain and exits with 1 if the processor has more", async (t) => {
  const scene = await setUpUsage(t);
  const customer = await scene.setCustomer();
  await scene.send(9);
  const args = ["reconcile", "--org", scene.id];
  const agreed = await scene.usageLater.ok(...args);
  t.regex(agreed.stdout, /tree +cus_\S+ +9 +9\n/u);
  t.regex(
    agreed.stderr,
    /Compared from .* to 20\S+ \d\d:\d\d:00Z; later usage is not compared yet\.\nNothing differs\./u,
  );
  // Another program reports usage of the same customer.
  scene.double.control.acceptEvent({ customerId: customer, units: 5 });
  const drifted = await scene.usageLater(...args, "--json");
  t.is(drifted.exitCode, 1);
  const report = z
    .looseObject({ streams: z.array(z.looseObject({ customer_id: z.string() })) })
    .parse(readJson(drifted));
  const ofCustomer = report.streams.filter(({ customer_id: id }) => id === customer);
  const trees = ofCustomer.find(({ kind }) => kind === "tree");
  t.like(trees, { delivered: 9, processor_quantity: 14 });
  t.regex(drifted.stderr, /1 differs at Stripe/u);
  const explained = await scene.usage("explain", scene.id);
  t.regex(explained.stdout, /Stripe had 5 units more of cus_\w+ than was delivered/u);
});

test("usage reconcile does not count what was delivered just before, of an earlier minute", async (t) => {
  const scene = await setUpUsage(t);
  await scene.setCustomer();
  const clock = { now: () => new Date(Date.now() - 20 * 60 * 1000) };
  await registerFor(t.context.db, scene.id, { clock, count: 9 });
  await scene.drain();
  scene.double.control.changeSettings({ summaryDelaySeconds: 120 });
  await t.context.db.query(sql.typeAlias("void")`
    UPDATE meter_event SET settled_at = settled_at - interval '5 minutes' WHERE account_id = ${scene.id}
  `);
  const lagging = await scene.usage.ok("reconcile", "--org", scene.id);
  t.regex(lagging.stdout, /tree +cus_\S+ +9 +0\n/u);
  t.regex(lagging.stderr, /1 minute was skipped: .* Repeat the command in 15 minutes\.\n/u);
});

test("usage reconcile says why it prints no sum, even if nothing needs a person", async (t) => {
  const scene = await setUpUsage(t);
  const run = await scene.usage.ok("reconcile", "--org", scene.id);
  t.regex(run.stdout, /tree +cus_\S+ +0 +-\n/u);
  t.regex(run.stderr, /tree, at cus_\w+ could not be compared: .*No such customer/u);
});

test("a refund that a deleted customer's usage keeps from being sent is closed, not retried", async (t) => {
  const scene = await setUpUsage(t);
  const { usage, double } = scene;
  const customerId = await scene.setCustomer();
  const registration = await scene.send(5);
  const filter = { state: "delivered", accountId: scene.id, limit: 1 } as const;
  const [delivered] = await listMeterEvents(t.context.db, filter);
  t.notRegex((await usage("explain", `E${delivered?.id}`)).stdout, /may be delivered/u);
  double.control.deleteCustomer({ customerId });
  await scene.refund(registration, 2);
  await scene.drain();
  const [item = ""] = await scene.failedEvents();
  const present = await usage("--org", scene.id);
  t.regex(present.stdout, /refused: impact org update .*; impact usage retry E\d+\n/u);

  await scene.setCustomer();
  const proposed = `impact usage close ${item} --credit-note cn_… --reason TEXT`;
  const overview = await usage("--org", scene.id);
  t.true(overview.stdout.includes(`credit owed: ${proposed}\n`), overview.stdout);
  const explained = await usage("explain", item);
  t.true(explained.stdout.includes(proposed), explained.stdout);
  t.notRegex(explained.stdout, /org update|usage retry/u);
  const closed = await usage("close", item, "--never-bill", "--reason", "deleted");
  t.regex(closed.stderr, /Closed: 2 units never returned\./u);
});

test("usage explain says why a registration has no usage", async (t) => {
  const scene = await setUpUsage(t);
  const { post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  await post("/app/api/plant", store.live, { trees: 3 });
  const id = await t.context.db.oneFirst(sql.type(z.strictObject({ id: z.uuid() }))`
    SELECT id FROM registration WHERE account_id = ${store.id}
  `);
  const prepaid = await scene.usage("explain", id);
  t.regex(prepaid.stdout, /billing +not_billed/u);
  await post("/app/api/refund", store.live, { type: "tree", quantity: 1 });
  t.regex((await scene.usage("explain", id)).stdout, /refunded count +1\n/u);
  t.regex(prepaid.stdout, /paid from the store's balance/u);
  t.notRegex(prepaid.stdout, /imported/u);

  const importedId = crypto.randomUUID();
  await t.context.db.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at)
    VALUES (${importedId}, ${scene.id}, 'live', 'tree', 1, now())
  `);
  const imported = await scene.usage("explain", importedId);
  t.regex(imported.stdout, /it was imported, so it is not billed and cannot be refunded/u);
});

test("what a comparison finds is stored, explained, and sent by a retry", async (t) => {
  const scene = await setUpUsage(t);
  await scene.setCustomer();
  scene.double.control.addFault({ kind: "reject_later" });
  await scene.send(9);

  const reconciled = await scene.usageLater("reconcile", "--org", scene.id);
  t.is(reconciled.exitCode, 1);
  const item = /^(?<item>D\d+) /mu.exec(reconciled.stdout)?.groups?.["item"] ?? "";
  const overview = await scene.usage("--org", scene.id);
  t.is(overview.exitCode, 1);
  t.regex(overview.stdout, new RegExp(`difference +9 .* ${item}`, "u"));
  t.regex(overview.stdout, new RegExp(`difference: impact usage retry ${item}\n`, "u"));
  const explained = await scene.usageLater("explain", item);
  t.regex(explained.stdout, /Stripe had 9 units less of cus_\w+ than was delivered/u);
  t.true(explained.stdout.includes(`1. Send 9 units to Stripe: impact usage retry ${item}`));
  t.true(
    explained.stdout.includes(
      `2. To see first what that would do: impact usage retry ${item} --dry-run`,
    ),
  );
  const withoutStripe = await scene.usageWithoutStripe.fails(4, "retry", item, "--dry-run");
  t.regex(withoutStripe, /STRIPE_SECRET_KEY is not set here/u);
  t.regex((await scene.usageLater("retry", item, "--dry-run")).stderr, /Nothing was changed/u);
  await scene.usage.fails(1, "--org", scene.id);
  await scene.usageLater.ok("retry", item);
  await scene.drain();
  t.is(scene.billed(), 9);
  await scene.usageLater.ok("reconcile", "--org", scene.id);
  t.regex((await scene.usage.ok("--org", scene.id)).stderr, /Nothing needs a person/u);
  t.regex((await scene.usage("retry", scene.id)).stderr, /Nothing has failed/u);
  const past = (await scene.usage("explain", item)).stdout;
  t.regex(past, /Stripe had 9 units less of cus_\w+ than was delivered/u);
  await scene.usage.fails(1, "retry", item);
  const closed = await scene.usage.fails(2, "close", item, "--never-bill", "--reason", "sent");
  t.regex(closed, /E\d+ is delivered: there is nothing to close/u);
  await scene.usage.fails(3, "retry", "D999999");
});

test("a comparison without Stripe's key is refused, and does not count as one that failed", async (t) => {
  const scene = await setUpUsage(t);
  t.regex(await scene.usageWithoutStripe.fails(4, "reconcile"), /STRIPE_SECRET_KEY is not set/u);
  t.like(readJson(await scene.usage("--json")), { last_reconciliation: null });
});

test("a comparison that fails needs a person, until one succeeds, which a deleted customer does not prevent", async (t) => {
  const scene = await setUpUsage(t);
  const path = `/v1/billing/meters/${scene.double.control.meterIds().tree}/event_summaries`;
  scene.double.control.addFault({ kind: "server_error", method: "GET", path, times: 100 });
  await scene.usage.fails(4, "reconcile");
  const failed = await scene.usage("--org", scene.id);
  t.is(failed.exitCode, 1);
  t.regex(failed.stderr, /The comparison of .* failed: \d+ streams? could not be read, such as/u);
  const { of } = await diagnose(scene.impact);
  t.regex(of("reconciliation"), /^wrong: .*; the last one failed: \d+ streams? could not be read/u);

  scene.double.control.clearFaults();
  const customer = await scene.setCustomer();
  await scene.send(9);
  scene.double.control.deleteCustomer({ customerId: customer });
  const run = await scene.usageLater("reconcile");
  t.regex(
    run.stderr,
    new RegExp(`tree, at ${customer} could not be compared: No such customer`, "u"),
  );
  t.regex(run.stderr, /Nothing differs\.$/mu);
  await scene.usage.ok("--org", scene.id);
});

test("usage is in trouble from its first failed attempt on, and needs no person", async (t) => {
  const scene = await setUpUsage(t);
  await scene.setCustomer();
  scene.double.control.addFault({ kind: "server_error" });
  await scene.send(3);
  const overview = await scene.usage.ok("--org", scene.id);
  t.regex(overview.stdout, /Settles by itself:\n.*\n.* in trouble +3 /u);
});

test("usage retry says that nothing is sent while usage is held", async (t) => {
  const scene = await setUpUsage(t);
  const { usage } = scene;
  await scene.setCustomer();
  scene.double.control.addFault(REFUSED);
  await scene.send(3);
  const [failed = ""] = await scene.failedEvents();
  await usage.ok("hold", "--reason", "upgrade", "--as", "ada");

  for (const args of [[failed], [scene.id], [scene.id, "--json"]]) {
    const { stderr } = await usage.ok("retry", ...args);
    if (args[0] === failed) {
      t.regex(stderr, /Nothing is sent: usage is held by ada: upgrade\. .*`impact usage resume`/u);
    }
    t.notRegex(stderr, /workers? (?:will )?send|within seconds|sent again/iu);
  }
  const explained = await usage("explain", scene.id);
  t.regex(explained.stderr, /Nothing is sent: usage is held by ada: upgrade\./u);
  const planned = await usage("resume", "--dry-run");
  t.regex(planned.stdout, /30 seconds\. If the database was restored.* pass --after-restore: /u);
  const resumed = await usage.ok("resume");
  t.regex(resumed.stdout, /^Ended the hold of ada \(upgrade\)\. The workers send usage within/u);
  await scene.drain();
  t.is(scene.billed(), 3);
});
