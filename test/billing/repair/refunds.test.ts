import { listUsageAttention } from "../../../modules/billing/meterEventReports.sql.ts";
import { recordFoundDelivery, releaseRefunds } from "../../../modules/billing/meterEvents.sql.ts";
import { LAG_SECONDS } from "../convergence/world.ts";
import { REFUSED } from "../../stripeDouble/faults.ts";
import { runBehindLocks } from "../../support/lockWaits.ts";
import { CREDIT_NOTE, INVOICE_ITEM, testRepairs } from "./testRepairs.ts";
import { applyRefusalReport } from "../../../modules/billing/processorEvents/processProcessorEvents.ts";
import { insertProcessorEvent } from "../../../modules/billing/processorEvents/processorEvents.sql.ts";
import type { Operator } from "./testRepairs.ts";

const test = testRepairs();

const attentionOf = async (operator: Operator) =>
  (await listUsageAttention(operator.deps().db, null)).map(({ cause, units }) => [cause, units]);

test("a refund of failed usage waits, and is sent after its usage, to the customer that has that", async (t, operator) => {
  const usage = await operator.fail(7);
  await operator.refund(operator.registrations()[0] ?? t.fail(), 3);
  await operator.send();
  t.deepEqual(await operator.states(), ["refused", "waits_for_usage"]);
  t.is(operator.sends(), 1);
  const refund = (await operator.listEvents(["failed"])).at(-1);
  await operator.refusesRetry(refund?.id, /waits for its usage E\d+: retry or close that/u);
  t.deepEqual(await attentionOf(operator), [["refused", 7]]);

  await operator.setCustomer(usage.accountId, operator.customerIds[4] ?? null);
  await operator.retry(usage.id);
  await operator.send();
  await operator.setCustomer(usage.accountId, operator.customerIds[3] ?? null);
  await operator.send();

  t.deepEqual(await operator.states(), ["delivered", "delivered"]);
  t.is(operator.billedTo(4), 4);
});

test("a refused refund waits if its usage is refused later, also when it is retried", async (t, operator) => {
  await operator.refund(await operator.sendNew(7), 3);
  operator.control.addFault(REFUSED);
  await operator.send();
  const [usage] = await operator.listEvents(["delivered"]);
  await operator.refuse(usage?.identifier ?? "");
  const [, refund] = await operator.listEvents(["failed"]);
  const sends = operator.sends();
  t.is((await operator.retry(refund?.id ?? 0n)).retry, "wait");
  await operator.send();
  t.deepEqual(await operator.states(), ["refused", "waits_for_usage"]);
  t.is(operator.sends(), sends);

  await operator.retryAll();
  await operator.settle();
  t.is(operator.billedTo(0), 4);
});

test("a refused refund is sent by a retry although its usage is being recorded as delivered", async (t, operator) => {
  await operator.refund(await operator.sendNew(7), 3);
  operator.control.addFault(REFUSED);
  await operator.send();
  const [sent] = await operator.listEvents(["delivered"]);
  await operator.refuse(sent?.identifier ?? "");
  const [usage, refund] = await operator.listEvents(["failed"]);
  const usageId = usage?.id ?? 0n;
  await operator.retry(usageId);
  operator.control.addFault({ kind: "drop", applied: true });
  operator.pass(LAG_SECONDS);
  await operator.send();
  t.is((await operator.find(usageId))?.state, "pending");
  const { db, clock } = operator.deps();

  const [retried] = await runBehindLocks(
    db,
    async (transaction) => {
      await recordFoundDelivery(transaction, usageId, usage?.customerId ?? null, clock.now());
      await releaseRefunds(transaction, [usageId]);
    },
    () => operator.retry(refund?.id ?? 0n),
  );

  t.is(retried.retry, "send");
  await operator.settle();
  t.deepEqual(await operator.states(), ["delivered", "delivered"]);
});

test("a refund of usage that a document bills needs a credit note, before and after it is sealed", async (t, operator) => {
  const usage = await operator.fail(7);
  const registration = operator.registrations()[0] ?? t.fail();
  await operator.refund(registration, 1);
  await operator.send();
  await operator.close([usage], { document: INVOICE_ITEM });
  operator.billBy([usage]);
  await operator.refund(registration, 2);
  await operator.send();

  const refunds = await operator.listEvents(["failed"]);
  t.deepEqual(
    refunds.map(({ failure, quantity }) => [failure, quantity]),
    [
      ["waits_for_usage", -1],
      ["waits_for_usage", -2],
    ],
  );
  t.deepEqual(await attentionOf(operator), [["credit_owed", -3]]);
  const [first] = refunds;
  await operator.refusesRetry(first?.id, /usage that ii_1 bills: issue a credit note/u);
  t.deepEqual(await operator.retryAll(), [], "no retry settles it");

  t.is((await operator.close(refunds, { document: CREDIT_NOTE, expectedUnits: -3 })).units, -3);
  operator.billBy(refunds);
  t.is(operator.sends(), 1);
});

test("refunds of usage that is never billed are closed with it, and later ones when they are sealed", async (t, operator) => {
  const usage = await operator.fail(7);
  const registration = operator.registrations()[0] ?? t.fail();
  await operator.refund(registration, 1);
  await operator.send();

  await operator.close([usage]);
  await operator.refund(registration, 2);
  await operator.send();

  t.deepEqual(await operator.states(), ["closed", "closed", "closed"]);
  t.is(operator.sends(), 1);
  t.deepEqual(await attentionOf(operator), []);
});

test("usage whose refund Stripe has is not closed as never billed", async (t, operator) => {
  await operator.refund(await operator.sendNew(7), 3);
  await operator.send();
  const [usage] = await operator.listEvents(["delivered"]);
  await operator.refuse(usage?.identifier ?? "");
  const events = await operator.listEvents(["failed"]);

  await t.throwsAsync(operator.close(events), {
    message: /refunds of 3 units of E\d+ have been sent/u,
  });

  await operator.retryAll();
  await operator.settle();
  t.is(operator.billedTo(0), 4);
});

test("usage whose refund was offset against other usage is not closed as never billed", async (t, operator) => {
  const registration = await operator.register(operator.accountIds[0] ?? "", 5);
  operator.control.addFault(REFUSED);
  await operator.send();
  await operator.retryAll();
  await operator.send();
  // It has the second of the first one, and is sealed with the refund of that.
  const { second, accountId } = registration;
  await operator.register(accountId, 5, { second });
  await operator.refund(registration, 5);
  await operator.send();
  t.deepEqual(await operator.states(), ["delivered", "delivered"]);
  const [usage] = await operator.listEvents(["delivered"]);
  await operator.refuse(usage?.identifier ?? "");

  const failed = await operator.listEvents(["failed"]);
  await t.throwsAsync(operator.close(failed), { message: /offset against other usage/u });

  await operator.retryAll();
  await operator.settle();
  t.is(operator.billedTo(0), 5);
});

/** Applies a report of events, as a worker does repeatedly. */
const applyReport = async (operator: Operator, identifiers: readonly string[]): Promise<void> => {
  const { db, clock } = operator.deps();
  const id = "evt_1";
  const type = "v1.billing.meter.error_report_triggered";
  await insertProcessorEvent(db, { id, type, objectId: null }, clock.now());
  await applyRefusalReport(operator.deps(), id, {
    windowEnd: clock.now(),
    reasons: new Map(identifiers.map((identifier) => [identifier, "refused"])),
  });
};

test("a report that names an event which is still being sent is applied once that is delivered", async (t, operator) => {
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
  test(`usage that Stripe lost is billed once if its report arrives ${isReportedFirst ? "before" : "after"} the difference was sent`, async (t, operator) => {
    const identifier = await operator.loseDelivered();
    const [difference] = await operator.reconcile();
    t.is(difference?.quantity, 5);
    if (isReportedFirst) {
      await applyReport(operator, [identifier]);
      await operator.refusesRetry(difference?.id, /may be E\d+: retry or close that first/u);
      t.deepEqual(await operator.reconcile(), [], "the event explains it");
    } else {
      await operator.retry(difference?.id ?? 0n);
      await operator.settle();
      await applyReport(operator, [identifier]);
    }
    await operator.retryAll();
    await operator.settle();

    t.deepEqual(operator.billed(), { 0: 5 });
    t.deepEqual(await operator.reconcile(), []);
  });
}
