import type { ExecutionContext } from "ava";
import { Stripe } from "stripe";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { createWebhookReader } from "../../../modules/billing/stripe/createWebhookReader.ts";
import { processProcessorEvents } from "../../../modules/billing/processorEvents/processProcessorEvents.ts";
import type { FailedProcessorEvent } from "../../../modules/billing/processorEvents/processProcessorEvents.ts";
import { listFailedMeterEventIds } from "../../../modules/billing/meterEventReports.sql.ts";
import { closeUsage } from "../../../modules/billing/reconciliation/closeUsage.ts";
import { startStandaloneApi } from "../../api/startStandaloneApi.ts";
import type { Api } from "../../api/startStandaloneApi.ts";
import { sendWebhook } from "../../stripeDouble/sendWebhook.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { setUpBilling } from "../billingSetup.ts";
import type { BillingSetup } from "../billingSetup.ts";

// Serial, because a test processes every pending event of the file's database.
const test = testWithDatabase();

const SECRET = "whsec_of_the_tests";

type WebhookSetup = BillingSetup & {
  readonly api: Api;
  readonly webhookUrl: string;
  /** Processes the due events, as a worker does. */
  readonly process: () => Promise<void>;
  readonly refused: string[];
  readonly failed: FailedProcessorEvent[];
  readonly stored: () => Promise<readonly { readonly type: string; readonly state: string }[]>;
  readonly lastErrors: () => Promise<readonly (string | null)[]>;
};

const storedRow = z.strictObject({ type: z.string(), state: z.string() });

const setUp = async (
  t: ExecutionContext<DatabaseContext>,
  secrets: readonly string[] = [SECRET],
): Promise<WebhookSetup> => {
  const { db } = t.context;
  await db.query(sql.typeAlias("void")`DELETE FROM processor_event`);
  const setup = await setUpBilling(t);
  const { deps, double, stream } = setup;
  const api = await startStandaloneApi(t, {
    db,
    clock: deps.clock,
    readStripeWebhook: createWebhookReader(secrets),
  });
  const webhookUrl = `${api.url}/webhooks/stripe`;
  double.control.setWebhook({ url: webhookUrl, secret: SECRET });
  const refused: string[] = [];
  const failed: FailedProcessorEvent[] = [];
  return {
    ...setup,
    api,
    webhookUrl,
    refused,
    failed,
    process: () =>
      processProcessorEvents(
        {
          ...deps,
          observeLateRefusal: ({ event, reason }) => refused.push(`${event.quantity} ${reason}`),
          observeFailedEvent: (event) => failed.push(event),
        },
        new AbortController().signal,
      ),
    stored: () => db.any(sql.type(storedRow)`SELECT type, state FROM processor_event ORDER BY id`),
    lastErrors: () =>
      db.anyFirst(sql.type(z.strictObject({ lastError: z.string().nullable() }))`
        SELECT last_error AS "lastError"
        FROM meter_event
        WHERE account_id = ${stream.accountId}
        ORDER BY id
      `),
  };
};

const REPORT = "v1.billing.meter.error_report_triggered";

const refusesLate = test.macro({
  exec: async (t, sampleForm: "identifier" | "idempotency_key") => {
    const setup = await setUp(t);
    const { register, drain, events, billed, recorded, double, process, retryFailed } = setup;
    double.control.addFault({ kind: "reject_later", code: "archived_meter" });
    await register(7);
    await drain();
    double.control.clearFaults();
    t.deepEqual(await events(), [{ state: "delivered", quantity: 7 }]);
    t.deepEqual(billed(), {});

    t.deepEqual(await double.control.reportErrors({ sampleForm }), [200]);
    t.deepEqual(await setup.stored(), [{ type: REPORT, state: "pending" }]);
    t.deepEqual(await events(), [{ state: "delivered", quantity: 7 }]);
    await process();

    t.deepEqual(await setup.stored(), [{ type: REPORT, state: "processed" }]);
    t.deepEqual(await events(), [{ state: "refused", quantity: 7 }]);
    t.regex(
      (await setup.lastErrors())[0] ?? "",
      /^refused after it was delivered at .*: archived/u,
    );
    t.deepEqual(setup.refused, ["7 archived_meter: The event was rejected: archived_meter."]);
    await retryFailed();
    await drain();
    t.deepEqual(billed(), await recorded());
    t.deepEqual(double.control.problems(), []);
  },
  title: (_, sampleForm) =>
    `usage that Stripe refuses after it accepted it becomes failed, and a retry bills it once (samples by ${String(sampleForm)})`,
});

test.serial(refusesLate, "identifier");
test.serial(refusesLate, "idempotency_key");

test.serial("a repeated webhook is stored and applied once", async (t) => {
  const { register, drain, events, double, process, stored, retryFailed, billed, recorded } =
    await setUp(t);
  double.control.addFault({ kind: "reject_later" });
  await register(3);
  await drain();
  t.deepEqual(await double.control.reportErrors({}), [200]);
  t.deepEqual(await double.control.reportErrors({ resend: true }), [200]);
  t.is((await stored()).length, 1);
  await process();
  await retryFailed();
  await drain();
  t.deepEqual(await double.control.reportErrors({ resend: true }), [200]);
  await process();

  t.deepEqual(await events(), [{ state: "delivered", quantity: 3 }]);
  t.deepEqual(billed(), await recorded());
});

test.serial(
  "a later refund of usage that was refused late waits for it, and a retry bills the rest",
  async (t) => {
    const { register, refund, drain, events, double, process, retryFailed, billed, recorded } =
      await setUp(t);
    double.control.addFault({ kind: "reject_later" });
    const id = await register(9);
    await drain();
    await double.control.reportErrors({});
    await process();
    await refund(id, 4);
    await drain();
    t.deepEqual(await events(), [
      { state: "refused", quantity: 9 },
      { state: "waits_for_usage", quantity: -4 },
    ]);
    t.deepEqual(billed(), {});
    await retryFailed();
    await drain();
    t.deepEqual(billed(), await recorded());
  },
);

for (const [refundIs, other, refundEvent, unitsBefore] of [
  ["at Stripe", 0, { state: "delivered", quantity: -4 }, [-4]],
  ["offset against other usage", 4, { state: "delivered", quantity: 0 }, []],
] as const) {
  test.serial(
    `usage that was refused late is not closed as never billed if a refund of it is ${refundIs}; a retry makes the sums agree`,
    async (t) => {
      const setup = await setUp(t);
      const { deps, register, refund, drain, events, double, process, retryFailed } = setup;
      const { billed, recorded, stream } = setup;
      const second = double.control.now();
      double.control.addFault({ kind: "reject_later" });
      const id = await register(9);
      await drain();
      if (other > 0) {
        // Committed late: the second is sealed already.
        double.control.holdClock({ second });
        await register(other);
      }
      await refund(id, 4);
      await drain();
      await double.control.reportErrors({});
      await process();
      t.deepEqual(await events(), [{ state: "refused", quantity: 9 }, refundEvent]);
      t.deepEqual(Object.values(billed()), [...unitsBefore]);
      const [failed] = await listFailedMeterEventIds(deps.db, { accountId: stream.accountId });
      await t.throwsAsync(
        closeUsage(
          deps,
          { eventIds: [failed ?? 0n], differenceIds: [] },
          { document: null, reason: "a test", by: "ada", expectedUnits: null, isDryRun: false },
        ),
        { message: /refunds of 4 units of E\d+ have been sent, .* retry it/u },
      );
      await retryFailed();
      await drain();
      t.deepEqual(billed(), await recorded());
      t.deepEqual(billed(), { [second]: 5 + other });
    },
  );
}

test.serial(
  "an event that may have been accepted twice is asked about once the sums show what Stripe has",
  async (t) => {
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
  },
);

test.serial(
  "a report about usage that is still being sent is applied once that is settled",
  async (t) => {
    const { register, drain, drainOnce, events, double, process, stored, pass } = await setUp(t);
    // Accepted and rejected, but the response is lost.
    double.control.addFault({ kind: "drop", applied: true });
    await register(2);
    pass(5);
    await drainOnce();
    const [accepted] = double.control.events();
    double.control.rejectAccepted({ identifier: accepted?.identifier ?? "" });
    await double.control.reportErrors({});
    await process();
    t.deepEqual(await events(), [{ state: "pending", quantity: 2 }]);
    t.deepEqual(await stored(), [{ type: REPORT, state: "pending" }]);

    // Stripe recognizes the identifier, so the event counts as delivered.
    await drain();
    pass(60);
    await process();

    t.deepEqual(await events(), [{ state: "refused", quantity: 2 }]);
    t.deepEqual(await stored(), [{ type: REPORT, state: "processed" }]);
  },
);

test.serial("events without a meter are reported in the same way", async (t) => {
  const { register, drain, events, double, process, stored } = await setUp(t);
  double.control.addFault({ kind: "reject_later", code: "no_meter" });
  await register(2);
  await drain();
  await double.control.reportErrors({});
  await process();
  t.deepEqual(await events(), [{ state: "refused", quantity: 2 }]);
  t.deepEqual(await stored(), [{ type: "v1.billing.meter.no_meter_found", state: "processed" }]);
});

test.serial("while Stripe is down, a stored event waits and is processed later", async (t) => {
  const { register, drain, events, double, process, stored, pass } = await setUp(t);
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
  t.deepEqual(await stored(), [{ type: REPORT, state: "pending" }]);
  pass(60);
  await process();
  t.deepEqual(await events(), [{ state: "refused", quantity: 2 }]);
});

test.serial("an event that Stripe does not have is recorded as failed with a reason", async (t) => {
  const { webhookUrl, double, process, failed, stored } = await setUp(t);
  const status = await sendWebhook(
    { url: webhookUrl, secret: SECRET, second: double.control.now() },
    {
      id: "evt_unknown",
      object: "v2.core.event",
      type: REPORT,
      created: new Date(double.control.now() * 1000).toISOString(),
      livemode: false,
    },
  );
  t.is(status, 200);
  await process();
  t.deepEqual(await stored(), [{ type: REPORT, state: "failed" }]);
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

test.serial("each of several secrets is accepted, so that secrets can be rotated", async (t) => {
  const { webhookUrl: url, double } = await setUp(t, ["whsec_old", "whsec_new"]);
  const second = double.control.now();
  for (const secret of ["whsec_old", "whsec_new"]) {
    t.is(await sendWebhook({ url, secret, second }, snapshot("invoice.paid")), 200);
  }
  t.is(await sendWebhook({ url, secret: "whsec_other", second }, snapshot("invoice.paid")), 400);
});

test.serial(
  "webhooks of Stripe's other mode are rejected with the reason, and logged once",
  async (t) => {
    const { webhookUrl: url, double, stored, api } = await setUp(t);
    const second = double.control.now();
    const live = { ...snapshot("customer.deleted"), livemode: true };
    const thin = { ...live, object: "v2.core.event", type: REPORT };
    const payload = JSON.stringify(live);
    const signature = await Stripe.webhooks.generateTestHeaderStringAsync({
      payload,
      secret: SECRET,
      timestamp: second,
    });
    const response = await fetch(url, {
      method: "POST",
      headers: { "Stripe-Signature": signature },
      body: payload,
    });
    t.is(response.status, 400);
    t.deepEqual(await response.json(), {
      error:
        "the event is of Stripe's live mode, and this deployment bills in test mode; point the webhook destination of test mode to this URL",
    });
    t.is(await sendWebhook({ url, secret: SECRET, second }, thin), 400);
    t.deepEqual(await stored(), []);
    const errors = api.logged().filter(({ level }) => level === 50);
    t.deepEqual(
      errors.map(({ msg }) => msg),
      ["webhooks of Stripe's other mode are rejected"],
    );
  },
);

test.serial("events of other types are acknowledged and not stored", async (t) => {
  const { webhookUrl: url, double, stored } = await setUp(t);
  const second = double.control.now();
  t.is(await sendWebhook({ url, secret: SECRET, second }, snapshot("invoice.paid")), 200);
  t.deepEqual(await stored(), []);
});

test.serial("forged, old, oversized and malformed webhooks are refused, not stored", async (t) => {
  const { webhookUrl: url, double, stored } = await setUp(t);
  const second = double.control.now();
  const event = { ...snapshot(REPORT), object: "v2.core.event" };
  t.is(await sendWebhook({ url, secret: "whsec_forged", second }, event), 400);
  t.is(await sendWebhook({ url, secret: SECRET, second: second - 600 }, event), 400);
  t.is(await sendWebhook({ url, secret: SECRET, second }, { object: "other" }), 400);
  t.is(await sendWebhook({ url, secret: SECRET, second }, { object: "event" }), 400);
  t.is((await fetch(url, { method: "POST", body: "not JSON" })).status, 400);
  t.is((await fetch(url, { method: "POST", body: JSON.stringify(event) })).status, 400);
  t.is((await fetch(url, { method: "POST", body: "x".repeat(600 * 1024) })).status, 413);
  t.deepEqual(await stored(), []);
});

test.serial("without a signing secret there is no webhook endpoint", async (t) => {
  const api = await startStandaloneApi(t, { db: t.context.db });
  t.is((await fetch(`${api.url}/webhooks/stripe`, { method: "POST", body: "{}" })).status, 404);
});
