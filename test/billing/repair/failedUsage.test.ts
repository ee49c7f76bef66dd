import { listMeterEvents } from "../../../modules/billing/meterEventReports.sql.ts";
import { readEvents } from "../../events/readEvents.ts";
import { REFUSED } from "../../stripeDouble/faults.ts";
import { LAG_SECONDS } from "../convergence/world.ts";
import { INVOICE_ITEM, testRepairs } from "./testRepairs.ts";
import type { Operator } from "./testRepairs.ts";

const test = testRepairs();

/** Returns the types of the events that the first account's client has received. */
const readTypes = async (operator: Operator): Promise<readonly string[]> => {
  const owner = { accountId: operator.accountIds[0] ?? "", mode: "live" } as const;
  const types = ["usage.failed", "usage.recovered"] as const;
  return (await readEvents(operator.deps(), owner, { types })).map(({ type }) => type);
};

test("refused usage is sent again by a retry, as the same event, and billed once", async (t, operator) => {
  const event = await operator.fail(4);
  t.like(event, { failure: "refused", mayBeDelivered: false });
  const known = / was refused: the processor does not have it/u;
  await operator.refusesRetry(event.id, known, "delivered");

  t.is((await operator.retry(event.id)).retry, "send");
  await operator.refusesRetry(event.id, /is pending: there is nothing to retry/u);
  await operator.send();

  t.like(await operator.find(event.id), {
    state: "delivered",
    generation: 1,
    identifier: `${event.identifier}.1`,
  });
  t.is(operator.billedTo(0), 4);
  t.deepEqual(await readTypes(operator), ["usage.failed", "usage.recovered"]);
});

test("usage of an organization without a customer is retried once it has one", async (t, operator) => {
  const accountId = operator.accountIds[0] ?? "";
  await operator.setCustomer(accountId, null);
  await operator.sendNew(4);
  const [event] = await operator.listEvents(["failed"]);
  await operator.refusesRetry(event?.id, /has no Stripe customer; set one/u);
  const [retried] = await operator.retryAll();
  t.regex(String(retried?.retry), /has no Stripe customer/u);

  await operator.setCustomer(accountId, operator.customerIds[0] ?? null);
  await operator.retry(event?.id ?? 0n);
  await operator.send();

  t.is(operator.billedTo(0), 4);
});

for (const isApplied of [true, false]) {
  test(`Stripe is asked about usage of unknown outcome that it ${isApplied ? "has" : "does not have"}, once its sums cannot lag`, async (t, operator) => {
    const event = await operator.failUnknown(6, isApplied);
    t.like(event, { failure: "refused", mayBeDelivered: true });
    const sends = operator.sends();

    t.is((await operator.retry(event.id)).retry, "ask");
    await operator.send();
    t.regex((await operator.find(event.id))?.lastError ?? "", /sums may lag until 2026-\S+Z$/u);
    t.is(operator.sends(), sends, "nothing is sent meanwhile");
    operator.pass(LAG_SECONDS);
    await operator.send();

    t.is((await operator.find(event.id))?.state, "delivered");
    t.is(operator.sends() - sends, isApplied ? 0 : 1);
    t.is(operator.billedTo(0), 6);
  });
}

test("usage of which two customers may have parts is unclear, with both sums shown, and is settled by differences", async (t, operator) => {
  const { id, accountId, second } = await operator.failUnknown(6, false);
  await operator.setCustomer(accountId, operator.customerIds[4] ?? null);
  for (const place of [0, 4]) {
    operator.reportElsewhere(second, 3, place);
  }
  await operator.retry(id);
  await operator.settle();
  const { failure, lastError } = (await operator.find(id)) ?? t.fail();
  t.is(failure, "unclear");
  t.regex(lastError ?? "", /3 units at cus_\w+ and 3 units at cus_\w+, and this event has 6/u);

  t.is((await operator.retry(id, "delivered")).retry, "record");

  const differences = await operator.reconcile();
  const quantities = differences.map(({ quantity }) => quantity).toSorted((a, b) => a - b);
  t.deepEqual(quantities, [-3, 3]);
  for (const difference of differences) {
    await operator.retry(difference.id);
  }
  await operator.settle();
  t.is(operator.billedTo(0), 6);
});

test("usage that a customer may have whose sums Stripe does not report is unclear", async (t, operator) => {
  const event = await operator.failUnknown(6, false);
  await operator.setCustomer(event.accountId, operator.customerIds[4] ?? null);
  operator.control.deleteCustomer({ customerId: operator.customerIds[4] ?? "" });

  await operator.retry(event.id);
  await operator.settle();

  t.is((await operator.find(event.id))?.failure, "unclear");
  await operator.setCustomer(event.accountId, operator.customerIds[3] ?? null);
  t.is((await operator.retry(event.id, "absent")).retry, "send");
  await operator.send();
  t.is(operator.billedTo(3), 6);
});

test("usage that Stripe is asked about for so long that it is too old fails for its client, too", async (t, operator) => {
  const event = await operator.failUnknown(6, false);
  await operator.retry(event.id);
  operator.pass(35 * 24 * 60 * 60);
  await operator.send();
  t.is((await operator.find(event.id))?.failure, "too_old");
  // The feed has no earlier events any more.
  t.deepEqual(await readTypes(operator), ["usage.failed"]);
  await operator.close([event]);
});

test("one command retries all that has failed, also repeated, and says what it cannot settle", async (t, operator) => {
  const refused = await operator.fail(1);
  await operator.fail(2, { place: 1 });
  operator.pass(60);
  const unknown = await operator.failUnknown(3, true);
  operator.reportElsewhere(refused.second, 5, 2);
  const [difference] = await operator.reconcile();
  const before = await operator.states();

  const planned = await operator.retryAll(true);
  t.deepEqual(await operator.states(), before, "a dry run changes nothing");
  const retried = await operator.retryAll();
  t.deepEqual(retried, planned);
  t.is(retried.length, 4);
  t.true(retried.some(({ name }) => name === `D${difference?.id}`));
  t.true(retried.some((item) => item.id === unknown.id && item.retry === "ask"));
  t.deepEqual(await operator.retryAll(), []);
  await operator.settle();

  t.deepEqual([0, 1, 2].map(operator.billedTo), [4, 2, 0]);
});

test("an organization's events are listed in the order of their usage, also when an earlier second is sealed later", async (t, operator) => {
  operator.pass(60);
  const { accountId, second } = await operator.fail(2);
  operator.control.addFault(REFUSED);
  await operator.register(accountId, 3, { second: second - 60 });
  await operator.send();
  for (const state of [null, "failed"] as const) {
    const list = (limit: number) =>
      listMeterEvents(operator.deps().db, { state, accountId, limit });
    t.deepEqual(
      (await list(9)).map(({ quantity }) => quantity),
      [2, 3],
    );
    t.like(await list(1), [{ quantity: 2 }]);
  }
  await operator.retryAll();
  await operator.send();
  await operator.send();
});

test("usage that is older than Stripe accepts is closed with an invoice item, not retried", async (t, operator) => {
  const event = await operator.fail(4);
  operator.pass(35 * 24 * 60 * 60);
  t.is((await operator.retry(event.id)).retry, "too_old");
  await operator.send();
  const old = await operator.find(event.id);
  t.is(old?.failure, "too_old");
  await operator.refusesRetry(event.id, /older than the processor accepts: close it/u);

  const events = old ? [old] : [];
  await operator.close(events, { document: INVOICE_ITEM });
  operator.billBy(events);
});
