import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { listUsageAttention } from "../../../modules/billing/meterEventReports.sql.ts";
import { REFUSED } from "../../stripeDouble/faults.ts";
import { CREDIT_NOTE, INVOICE_ITEM, testRepairs } from "./testRepairs.ts";
import type { Operator } from "./testRepairs.ts";

const test = testRepairs();

/** Fails usage of 2, 3 and 4 units. */
const failThree = async (operator: Operator) => [
  await operator.fail(2),
  await operator.fail(3),
  await operator.fail(4),
];

test("one document closes many events: its sum and its kind are checked, and it can be repeated, also after a part", async (t, operator) => {
  const events = await failThree(operator);
  const before = await operator.states();
  await t.throwsAsync(operator.close(events, { document: CREDIT_NOTE }), {
    message: /9 units to bill: name an invoice item/u,
  });
  await t.throwsAsync(operator.close(events, { document: INVOICE_ITEM, expectedUnits: 8 }), {
    message: /these are 9 units, not 8/u,
  });
  t.is((await operator.close(events, { document: INVOICE_ITEM, isDryRun: true })).units, 9);
  t.deepEqual(await operator.states(), before);

  await operator.close(events.slice(0, 2), { document: INVOICE_ITEM });
  t.is((await operator.close(events, { document: INVOICE_ITEM, expectedUnits: 9 })).units, 9);
  t.deepEqual(await operator.states(), ["closed", "closed", "closed"]);
  t.is((await operator.close(events, { document: INVOICE_ITEM, expectedUnits: 9 })).units, 9);
  operator.billBy(events);
  await t.throwsAsync(
    operator.close(events.slice(1), { document: { ...INVOICE_ITEM, reference: "ii_2" } }),
    { message: /was closed with ii_1/u },
  );
  await t.throwsAsync(operator.close(events.slice(1)), { message: /was closed with ii_1/u });

  const document = { documentKind: "invoice_item", documentReference: "ii_1" };
  t.like(await operator.find(events[0]?.id ?? 0n), { state: "closed", ...document });
  await operator.refusesRetry(events[0]?.id, /is closed: there is nothing to retry/u);
  t.deepEqual(await operator.retryAll(), []);
  await operator.send();
  t.deepEqual(operator.billed(), {});
});

test("usage is never billed by decision, which can be repeated", async (t, operator) => {
  const events = await failThree(operator);
  await operator.close(events);
  await operator.close(events);
  t.deepEqual(await operator.states(), ["closed", "closed", "closed"]);
  t.regex((await operator.find(events[0]?.id ?? 0n))?.lastError ?? "", /^never billed$/u);
  const actions = await operator.deps().db.anyFirst(sql.type(z.object({ action: z.string() }))`
    SELECT action FROM audit_entry WHERE action = 'usage.close'
  `);
  t.is(actions.length, 2);
});

test("if one item cannot be closed, none is", async (t, operator) => {
  await operator.sendNew(5);
  const events = await failThree(operator);
  const delivered = await operator.listEvents(["delivered"]);
  await t.throwsAsync(operator.close([...events, ...delivered], { document: INVOICE_ITEM }), {
    message: /is delivered: there is nothing to close/u,
  });
  t.deepEqual(await operator.states(), ["delivered", "refused", "refused", "refused"]);
  await operator.close(events);
});

test("a refund whose usage is open is closed only with it", async (t, operator) => {
  const usage = await operator.fail(5);
  await operator.refund(operator.registrations()[0] ?? t.fail(), 2);
  await operator.send();
  const [, refund] = await operator.listEvents(["failed"]);
  const refunds = refund ? [refund] : [];
  await t.throwsAsync(operator.close(refunds, { document: CREDIT_NOTE }), {
    message: /waits for its usage E\d+: retry that, or close both/u,
  });

  const both = [usage, ...refunds];
  t.is((await operator.close(both, { document: INVOICE_ITEM, expectedUnits: 3 })).units, 3);
  operator.billBy(both);
});

/** Delivers usage of a period that has ended. */
const deliverLate = async (operator: Operator) => {
  await operator.sendNew(4);
  await operator.deps().db.query(sql.typeAlias("void")`UPDATE meter_event SET is_late = true`);
  return operator.listEvents(["delivered"]);
};

for (const document of [INVOICE_ITEM, null]) {
  test(`late usage that ${document === null ? "is never billed" : "a document bills"} stays delivered and needs no person, until Stripe refuses it`, async (t, operator) => {
    const events = await deliverLate(operator);
    const attention = await listUsageAttention(operator.deps().db, null);
    t.deepEqual([attention.length, attention[0]?.cause], [1, "late"]);
    t.deepEqual(await operator.retryAll(), []);

    await operator.close(events, { document });
    await operator.close(events, { document });

    t.deepEqual(await operator.states(), ["delivered"]);
    t.deepEqual(await listUsageAttention(operator.deps().db, null), []);

    await operator.refuse(events[0]?.identifier ?? "");
    if (document === null) {
      t.deepEqual(await operator.states(), ["refused"]);
      await operator.close(await operator.listEvents(["failed"]));
    } else {
      operator.billBy(events);
    }
    t.deepEqual(await operator.states(), ["closed"]);
    await operator.settle();
    t.deepEqual(operator.billed(), {});
  });
}

test("one credit note closes a difference and a refund together", async (t, operator) => {
  const registration = await operator.sendNew(5);
  operator.reportElsewhere(registration.second, 4);
  const differences = await operator.reconcile();
  await operator.refund(registration, 2);
  operator.control.addFault(REFUSED);
  await operator.send();
  const refunds = await operator.listEvents(["failed"]);

  const both = [...refunds, ...differences];
  await t.throwsAsync(operator.close(both, { document: INVOICE_ITEM }), {
    message: /6 units to return: name a credit note/u,
  });
  t.is((await operator.close(both, { document: CREDIT_NOTE, expectedUnits: -6 })).units, -6);
  operator.billBy(both);

  t.deepEqual(await operator.reconcile(), []);
  t.is((await operator.close(both, { document: CREDIT_NOTE })).units, -6);
  const other = { ...CREDIT_NOTE, reference: "cn_2" };
  await t.throwsAsync(operator.close(differences, { document: other }), {
    message: /^E\d+ was closed with cn_1$/u,
  });
});
