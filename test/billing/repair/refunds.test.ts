import { listUsageAttention } from "../../../modules/billing/meterEventReports.sql.ts";
import { REFUSED } from "../../stripeDouble/faults.ts";
import { testRepairs } from "./testRepairs.ts";

const test = testRepairs();

const INVOICE_ITEM = { kind: "invoice_item", reference: "ii_1" } as const;
const CREDIT_NOTE = { kind: "credit_note", reference: "cn_1" } as const;

test("a refund of failed usage waits, and is sent after its usage, to the customer that has that", async (operator) => {
  const { t } = operator;
  const usage = await operator.fail(7);
  await operator.refund(operator.registrations()[0] ?? t.fail(), 3);
  await operator.send();
  t.deepEqual(await operator.states(), ["refused", "waits_for_usage"]);
  t.is(operator.sends(), 1);
  const refund = (await operator.listEvents(["failed"])).at(-1);
  await t.throwsAsync(operator.retry(refund?.id ?? 0n), {
    message: /waits for its usage E\d+: retry or close that/u,
  });
  const attention = await listUsageAttention(operator.deps().db, null);
  t.deepEqual(
    attention.map(({ cause, units }) => [cause, units]),
    [["refused", 7]],
  );

  await operator.setCustomer(usage.accountId, operator.customerIds[4] ?? null);
  await operator.retry(usage.id);
  await operator.send();
  await operator.setCustomer(usage.accountId, operator.customerIds[3] ?? null);
  await operator.send();

  t.deepEqual(await operator.states(), ["delivered", "delivered"]);
  t.is(operator.billedTo(4), 4);
});

test("a refund of usage that a document bills needs a credit note, before and after it is sealed", async (operator) => {
  const { t } = operator;
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
  const attention = await listUsageAttention(operator.deps().db, null);
  t.deepEqual(
    attention.map(({ cause, units }) => [cause, units]),
    [["credit_owed", -3]],
  );
  const [first] = refunds;
  await t.throwsAsync(operator.retry(first?.id ?? 0n), {
    message: /usage that ii_1 bills: issue a credit note/u,
  });
  t.deepEqual(await operator.retryAll(), [], "no retry settles it");

  t.is((await operator.close(refunds, { document: CREDIT_NOTE, expectedUnits: -3 })).units, -3);
  operator.billBy(refunds);
  t.is(operator.sends(), 1);
});

test("refunds of usage that is never billed are closed with it, and later ones when they are sealed", async (operator) => {
  const { t } = operator;
  const usage = await operator.fail(7);
  const registration = operator.registrations()[0] ?? t.fail();
  await operator.refund(registration, 1);
  await operator.send();

  await operator.close([usage]);
  await operator.refund(registration, 2);
  await operator.send();

  t.deepEqual(await operator.states(), ["closed", "closed", "closed"]);
  t.is(operator.sends(), 1);
  t.deepEqual(await listUsageAttention(operator.deps().db, null), []);
});

test("usage whose refund Stripe has is not closed as never billed", async (operator) => {
  const { t } = operator;
  const registration = await operator.sendNew(7);
  await operator.refund(registration, 3);
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

test("usage whose refund was offset against other usage is not closed as never billed", async (operator) => {
  const { t } = operator;
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

  await t.throwsAsync(operator.close(await operator.listEvents(["failed"])), {
    message: /offset against other usage/u,
  });

  await operator.retryAll();
  await operator.settle();
  t.is(operator.billedTo(0), 5);
});
