import test from "ava";
import { z } from "zod";
import { insertProcessorEvent } from "../../../modules/billing/processorEvents/processorEvents.sql.ts";
import { sql } from "../../../db/sql.ts";
import { guardUsage } from "../../../modules/billing/holdUsage.ts";
import { applyRejectionReport } from "../../../modules/billing/processorEvents/applyRejectionReport.ts";
import { setUpRestore } from "./restoreSetup.ts";
import { FORGOTTEN_AFTER_SECONDS, LAG_SECONDS } from "./retriedSetup.ts";

const identifierRow = z.object({ identifier: z.string() });

for (const [title, isDeliveredBefore, isCustomerChanged, isHeldAnew] of [
  ["usage that was delivered before", true, false, false],
  ["usage that was delivered before at an earlier customer", true, true, false],
  ["usage that was being sent", false, false, false],
  ["the hold restarts after the report", true, false, true],
] as const) {
  test(`a refund that a lost history has sent before Stripe refused its usage is billed once after a restore (${title})`, async (t) => {
    const scene = await setUpRestore(t);
    const { control, customerId, drain, impact, original, pass, register, refund, stream } = scene;
    const { customerId: laterCustomerId } = control.addCustomer({});
    const sumBilled = (): number =>
      [customerId, laterCustomerId]
        .flatMap((customer) => control.usage({ customerId: customer }))
        .reduce((sum, { value }) => sum + value, 0);
    const id = await register(original, 11);
    pass(5);
    if (!isDeliveredBefore) {
      control.addFault({ kind: "respond", status: 500, body: { error: { message: "later" } } });
    }
    await drain(original);
    await refund(original, id, 2);
    const { continued, restored: first } = await scene.fork(original);
    pass(5);
    await drain(continued);
    t.is(sumBilled(), 9);
    const identifier = await continued.db.oneFirst(
      sql.type(identifierRow)`SELECT identifier FROM meter_event ORDER BY id LIMIT 1`,
    );
    control.rejectAccepted({ identifier });
    t.is(sumBilled(), -2);
    const refusedAt = continued.deps.clock.now();
    pass(FORGOTTEN_AFTER_SECONDS);
    await guardUsage(first.deps);
    pass(LAG_SECONDS);
    if (isCustomerChanged) {
      const ids = ["--stripe-customer", laterCustomerId, "--stripe-subscription", "none"];
      t.is((await impact(first, "org", "update", stream.accountId, ...ids)).exitCode, 0);
    }
    const event = { id: "evt_1", type: "v1.billing.meter.error_report_triggered", objectId: null };
    await insertProcessorEvent(first.db, { ...event, createdAt: refusedAt }, refusedAt);
    const reported = applyRejectionReport(
      { ...first.deps, observeRejection: () => undefined },
      event.id,
      {
        windowStart: refusedAt,
        windowEnd: refusedAt,
        rejections: [
          { code: "archived_meter", errors: 1, samples: [{ identifier, message: "refused" }] },
        ],
      },
    );
    await (isDeliveredBefore
      ? reported
      : t.throwsAsync(reported, { message: /still being sent/u }));
    const restored = isHeldAnew ? (await scene.fork(first)).restored : first;
    if (isHeldAnew) {
      pass(LAG_SECONDS);
      await guardUsage(restored.deps);
      pass(LAG_SECONDS);
    }
    t.is((await impact(restored, "usage", "compare-and-release")).exitCode, 0);
    await drain(restored);

    await impact(restored, "usage", "retry", "--all");
    pass(LAG_SECONDS);
    const retried = await impact(restored, "usage", "retry", "--all");

    t.is(retried.exitCode, 0, retried.stdout);
    t.is((await drain(restored)).kind, "done");
    t.is(sumBilled(), 9);
  });
}
