import { moveToStripe } from "../../../modules/billing/moveToStripe.ts";
import { connectStripe } from "../../../modules/billing/stripe/createStripeProcessor.ts";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import { FORGOTTEN_SECONDS, testRepairs } from "./testRepairs.ts";
import type { Operator } from "./testRepairs.ts";

const testRepair = testRepairs();

const test: typeof testRepair = (title, work) => testRepair(title, work, { startsOnLedger: true });

const accountOf = (operator: Operator, place = 0): string => operator.accountIds[place] ?? "";
const join = (operator: Operator, place = 0): Promise<void> =>
  operator.setCustomer(accountOf(operator, place), operator.customerIds[place] ?? null);

test("the ledger's usage of the cycle moves to Stripe once, of organizations with a customer", async (operator) => {
  const { t } = operator;
  await operator.sendNew(5);
  await operator.sendNew(4, 1);
  t.is(operator.sends(), 0);
  await join(operator);
  const { db, clock, actor } = operator.deps();
  const stripe = connectStripe({
    secretKey: operator.double.secretKey,
    apiBase: operator.double.url,
  });
  const planned = await moveToStripe(
    { db, clock, actor, billing: createBilling({ db, stripe }) },
    { isDryRun: true },
  );
  t.like(planned, {
    usage: [{ accountId: accountOf(operator), events: 1, quantity: 5 }],
  });

  await operator.move();
  await operator.move();
  await operator.send();

  t.is(operator.billedTo(0), 5);
  t.is(operator.billedTo(1), 0);
  await join(operator, 1);
  await operator.move();
  await operator.send();
  t.is(operator.billedTo(1), 4);
  const repeated = await moveToStripe(operator.deps(), { isDryRun: false });
  t.deepEqual(repeated.usage, []);
  t.deepEqual(await operator.reconcile(), []);
});

test("refunds of moved usage go to Stripe, also if they were offset in the ledger", async (operator) => {
  const { t } = operator;
  const first = await operator.sendNew(5);
  // It has the second of the first one, and is sealed with the refund of that.
  const second = await operator.register(accountOf(operator), 5, { second: first.second });
  await operator.refund(first, 5);
  await operator.send();
  await join(operator);
  await operator.move();
  await operator.send();
  t.is(operator.billedTo(0), 5);

  await operator.refund(second, 2);
  await operator.send();

  t.is(operator.billedTo(0), 3);
});

for (const moves of ["before", "after"] as const) {
  test(`a move that a restore has lost bills once if it is repeated ${moves} usage is resumed`, async (operator) => {
    const { t } = operator;
    const registration = await operator.sendNew(5);
    await operator.register(accountOf(operator), 2);
    await operator.restore(async () => {
      await operator.send();
      await join(operator);
      await operator.move();
      await operator.send();
      await operator.refund(registration, 1);
      await operator.send();
      operator.pass(FORGOTTEN_SECONDS);
    });
    await join(operator);
    if (moves === "after") {
      await operator.resume();
    }
    await operator.move();
    await operator.resume();
    await operator.settle();

    t.is(operator.billedTo(0), 7);
    await operator.move();
    await operator.settle();
    t.is(operator.billedTo(0), 7);
  });
}

test("usage of a deployment that the ledger bills is sealed after a restore without questions", async (operator) => {
  const { t } = operator;
  await operator.register(accountOf(operator), 3);
  await operator.restore(() => operator.send());
  await operator.send();
  t.deepEqual(await operator.states(), []);
  await operator.resume();
  await operator.send();
  t.deepEqual(await operator.states(), ["delivered"]);
});
