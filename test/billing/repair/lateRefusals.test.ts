import { applyRefusalReport } from "../../../modules/billing/processorEvents/processProcessorEvents.ts";
import { insertProcessorEvent } from "../../../modules/billing/processorEvents/processorEvents.sql.ts";
import { testRepairs } from "./testRepairs.ts";
import type { Operator } from "./testRepairs.ts";

const test = testRepairs();

/** Applies a report of events, as a worker does repeatedly. */
const applyReport = async (
  operator: Operator,
  identifiers: readonly string[],
  at = operator.deps().clock.now(),
): Promise<void> => {
  const { db, clock } = operator.deps();
  const id = "evt_1";
  const type = "v1.billing.meter.error_report_triggered";
  await insertProcessorEvent(db, { id, type, objectId: null }, clock.now());
  await applyRefusalReport(operator.deps(), id, {
    windowEnd: at,
    reasons: new Map(identifiers.map((identifier) => [identifier, "refused"])),
  });
};

test("a report that names an event which is still being sent is applied once that is delivered", async (operator) => {
  const { t } = operator;
  await operator.sendNew(5);
  operator.pass(60);
  operator.control.addFault({ kind: "drop", applied: true, times: 2 });
  await operator.sendNew(3);
  const [delivered, pending] = await operator.listEvents(["delivered", "pending"]);
  const identifiers = [delivered?.identifier ?? "", pending?.identifier ?? ""];
  identifiers.forEach((identifier) => operator.control.rejectAccepted({ identifier }));
  await t.throwsAsync(applyReport(operator, identifiers), { message: /are still being sent/u });
  t.deepEqual(await operator.states(), ["delivered", "pending"]);
  await operator.settle();
  await operator.send();

  await applyReport(operator, identifiers);

  t.deepEqual(await operator.states(), ["refused", "refused"]);
  await operator.retryAll();
  await operator.settle();
  t.deepEqual(operator.billed(), { 0: 5, 1: 3 });
});

for (const isReportedFirst of [true, false]) {
  test(`usage that Stripe lost is billed once if its report arrives ${isReportedFirst ? "before" : "after"} the difference was sent`, async (operator) => {
    const { t } = operator;
    await operator.sendNew(5);
    const [event] = await operator.listEvents(["delivered"]);
    const identifier = event?.identifier ?? "";
    operator.control.rejectAccepted({ identifier });
    const [difference] = await operator.reconcile();
    t.is(difference?.units, -5);
    if (isReportedFirst) {
      await applyReport(operator, [identifier]);
      await t.throwsAsync(operator.sendDifference(difference?.id ?? 0n), {
        message: /may be E\d+: retry or close that first/u,
      });
      t.deepEqual(await operator.reconcile(), [], "the event explains it");
    } else {
      await operator.sendDifference(difference?.id ?? 0n);
      await operator.settle();
      await applyReport(operator, [identifier]);
    }
    await operator.retryAll();
    await operator.settle();

    t.deepEqual(operator.billed(), { 0: 5 });
    t.deepEqual(await operator.reconcile(), []);
  });
}

test("a report from before an event was first sent is of the lost history's event, and is not about it", async (operator) => {
  const { t } = operator;
  const reportedAt = operator.deps().clock.now();
  operator.pass(10 * 60);
  await operator.sendNew(5);
  const [event] = await operator.listEvents(["delivered"]);

  await applyReport(operator, [event?.identifier ?? ""], reportedAt);

  t.deepEqual(await operator.states(), ["delivered"]);
});
