import type { ExecutionContext } from "ava";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { listMeterEvents } from "../../../modules/billing/meterEventReports.sql.ts";
import { startStandaloneApi } from "../../api/startStandaloneApi.ts";
import { sendWebhook } from "../../stripeDouble/sendWebhook.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { startBilledApi, WEBHOOK_SECRET as SECRET } from "../billedApi.ts";
import { setUpBilling } from "../billingSetup.ts";

// Serial, because a test processes every pending event of the file's database.
const test = testWithDatabase().serial;

const setUp = async (t: ExecutionContext<DatabaseContext>, secrets?: string[]) => {
  const { db } = t.context;
  await db.query(sql.typeAlias("void")`DELETE FROM processor_event`);
  const setup = await setUpBilling(t);
  return {
    ...setup,
    ...(await startBilledApi(t, setup, secrets)),
    /** Returns the types of the events that wait. */
    waiting: () =>
      db.anyFirst(sql.type(z.strictObject({ type: z.string() }))`
        SELECT type FROM processor_event ORDER BY id
      `),
  };
};

const REPORT = "v1.billing.meter.error_report_triggered";

for (const [form, sampleForm, code] of [
  ["samples by identifier", "identifier", "archived_meter"],
  ["samples by idempotency key", "idempotency_key", "archived_meter"],
  ["without a meter", "identifier", "no_meter"],
] as const) {
  test(`usage that Stripe refuses after it accepted it fails, and a retry bills it once (${form})`, async (t) => {
    const setup = await setUp(t);
    const { register, drain, events, billed, recorded, double, process, retryFailed } = setup;
    const { db } = t.context;
    double.control.addFault({ kind: "reject_later", code });
    await register(7);
    await drain();
    t.deepEqual(await events(), [{ state: "delivered", quantity: 7 }]);
    t.deepEqual(billed(), {});

    t.deepEqual(await double.control.reportErrors({ sampleForm }), [200]);
    const type = code === "no_meter" ? "v1.billing.meter.no_meter_found" : REPORT;
    t.deepEqual(await setup.waiting(), [type]);
    t.deepEqual(await events(), [{ state: "delivered", quantity: 7 }]);
    await process();

    t.deepEqual(await setup.waiting(), []);
    t.deepEqual(await events(), [{ state: "refused", quantity: 7 }]);
    const { accountId } = setup.stream;
    const [event] = await listMeterEvents(db, { state: "failed", accountId, limit: 1 });
    const expected = `^refused after it was delivered at .*: ${code}: The event was`;
    t.regex(event?.lastError ?? "", new RegExp(expected, "u"));
    await retryFailed();
    await drain();
    t.deepEqual(billed(), await recorded());
    t.deepEqual(double.control.problems(), []);
  });
}

test("a repeated webhook is stored and applied once", async (t) => {
  const { register, drain, events, double, process, waiting, retryFailed, billed, recorded } =
    await setUp(t);
  double.control.addFault({ kind: "reject_later" });
  await register(3);
  await drain();
  t.deepEqual(await double.control.reportErrors({}), [200]);
  t.deepEqual(await double.control.reportErrors({ resend: true }), [200]);
  t.is((await waiting()).length, 1);
  await process();
  await retryFailed();
  await drain();
  t.deepEqual(await double.control.reportErrors({ resend: true }), [200]);
  await process();

  t.deepEqual(await events(), [{ state: "delivered", quantity: 3 }]);
  t.deepEqual(billed(), await recorded());
});

test("an event that may have been accepted twice is asked about once the sums show what Stripe has", async (t) => {
  const { register, drain, drainOnce, events, double, process, retryFailed, ...setup } =
    await setUp(t);
  // A saved 500 gives the next attempt an idempotency key with a suffix.
  double.control.addFault({ kind: "server_error_saved" });
  double.control.addFault({ kind: "reject_later" });
  await register(5);
  await drain();
  t.regex(double.control.events()[0]?.idempotencyKey ?? "", /#1$/u);
  await double.control.reportErrors({ sampleForm: "idempotency_key" });
  await process();
  t.deepEqual(await events(), [{ state: "refused", quantity: 5 }]);
  t.deepEqual(await retryFailed(), ["ask"]);
  t.like(await drainOnce(), { kind: "delayed", cause: "early" });
  await drain();
  t.deepEqual(setup.billed(), await setup.recorded());
});

test("while Stripe is down, a stored event waits and is processed later", async (t) => {
  const { register, drain, events, double, process, waiting, delayed, failed, pass } =
    await setUp(t);
  double.control.addFault({ kind: "reject_later" });
  await register(2);
  await drain();
  await double.control.reportErrors({});
  const id = await t.context.db.oneFirst(sql.type(z.strictObject({ id: z.string() }))`
    SELECT id FROM processor_event
  `);
  double.control.addFault({ kind: "server_error", method: "GET", path: `/v2/core/events/${id}` });
  await process();
  t.deepEqual(await events(), [{ state: "delivered", quantity: 2 }]);
  await process();
  t.deepEqual(await waiting(), [REPORT]);
  t.like(delayed, [{ id, type: REPORT }]);
  t.deepEqual(failed, []);
  pass(60);
  await process();
  t.deepEqual(await events(), [{ state: "refused", quantity: 2 }]);
});

test("an event that Stripe does not have is given up with a reason", async (t) => {
  const { webhookUrl, double, process, failed, waiting } = await setUp(t);
  const second = double.control.now();
  const created = new Date(second * 1000).toISOString();
  const event = { id: "evt_unknown", object: "v2.core.event", type: REPORT, created };
  const destination = { url: webhookUrl, secret: SECRET, second };
  t.is(await sendWebhook(destination, { ...event, livemode: false }), 200);
  await process();
  t.deepEqual(await waiting(), []);
  t.deepEqual(failed, [
    { id: "evt_unknown", type: REPORT, reason: "Stripe does not have the event evt_unknown." },
  ]);
});

const snapshot = (type: string) => ({
  id: `evt_${crypto.randomUUID()}`,
  object: "event",
  type,
  created: Date.UTC(2026, 4, 15, 12) / 1000,
  livemode: false,
  data: { object: { id: "cus_x", object: "customer" } },
});

test("each of several secrets is accepted, so that secrets can be rotated", async (t) => {
  const { webhookUrl: url, double } = await setUp(t, ["whsec_old", "whsec_new"]);
  const second = double.control.now();
  for (const secret of ["whsec_old", "whsec_new"]) {
    t.is(await sendWebhook({ url, secret, second }, snapshot("invoice.paid")), 200);
  }
  t.is(await sendWebhook({ url, secret: "whsec_other", second }, snapshot("invoice.paid")), 400);
});

test("forged, old, oversized and malformed webhooks are refused, those of other types acknowledged, and none stored", async (t) => {
  const { webhookUrl: url, double, waiting } = await setUp(t);
  const second = double.control.now();
  const event = { ...snapshot(REPORT), object: "v2.core.event" };
  t.is(await sendWebhook({ url, secret: "whsec_forged", second }, event), 400);
  t.is(await sendWebhook({ url, secret: SECRET, second: second - 600 }, event), 400);
  t.is(await sendWebhook({ url, secret: SECRET, second }, { object: "other" }), 400);
  t.is(await sendWebhook({ url, secret: SECRET, second }, { object: "event" }), 400);
  t.is((await fetch(url, { method: "POST", body: "not JSON" })).status, 400);
  t.is((await fetch(url, { method: "POST", body: JSON.stringify(event) })).status, 400);
  t.is((await fetch(url, { method: "POST", body: "x".repeat(600 * 1024) })).status, 413);
  t.is(await sendWebhook({ url, secret: SECRET, second }, snapshot("invoice.paid")), 200);
  t.deepEqual(await waiting(), []);
});

test("without a signing secret there is no webhook endpoint", async (t) => {
  const api = await startStandaloneApi(t, { db: t.context.db });
  t.is((await fetch(`${api.url}/webhooks/stripe`, { method: "POST", body: "{}" })).status, 404);
});
