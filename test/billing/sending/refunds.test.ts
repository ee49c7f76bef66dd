import { DomainError } from "../../../runtime/errors.rules.ts";
import { updateAccount } from "../../../modules/accounts/accounts.sql.ts";
import { readRefundState } from "../../../modules/billing/registrationFacts.sql.ts";
import { testWithDatabase } from "../../support/database.ts";
import { readAccountSums } from "../../support/accountSums.ts";
import { setUpBilling } from "../billingSetup.ts";

const test = testWithDatabase();

test("usage that is refunded before it is sent is never sent", async (t) => {
  const { register, refund, drain, sends, events, billed, deps } = await setUpBilling(t);
  const id = await register(8);
  await refund(id);
  t.is(await readRefundState(deps.db, id), "pending");

  await drain();

  t.is(sends(), 0);
  t.deepEqual(await events(), [{ state: "delivered", quantity: 0 }]);
  t.deepEqual(billed(), {});
  t.is(await readRefundState(deps.db, id), "settled");
});

test("a refund of reported usage is billed at the registration's second", async (t) => {
  const { register, refund, drain, double, billed, recorded, pass } = await setUpBilling(t);
  const second = double.control.now();
  const id = await register(8);
  const other = await register(2);
  await drain();
  pass(3600);

  const refunded = await refund(id);
  await drain();

  t.like(refunded, { refundedCount: 8, registration: { count: 8 }, refundedSoFar: 8, total: 2 });
  t.deepEqual(billed(), { [second]: 2 });
  t.deepEqual(billed(), await recorded());
  await refund(other, 2);
  await drain();
  t.deepEqual(billed(), {});
});

test("a refund goes to the customer that was billed, even if the account has another one by then", async (t) => {
  const { register, refund, drain, double, deps, stream, customerId, pass } = await setUpBilling(t);
  const { db } = deps;
  const unitsOf = (...ids: readonly string[]) =>
    ids.map((id) => double.control.units({ customerId: id }));
  const first = await register(8);
  const second = await register(4);
  await drain();
  const { customerId: other } = double.control.addSubscriber({});
  await updateAccount(db, stream.accountId, { stripeCustomerId: other });
  const third = await register(5);
  await refund(first, 3);
  await refund(second);
  await drain();
  t.deepEqual(unitsOf(customerId, other), [5, 5]);

  await refund(third);
  pass(60);
  await refund(first);
  await drain();

  t.deepEqual(unitsOf(customerId, other), [0, 0]);
});

test.serial(
  "usage that the ledger billed is refunded there, even if the account uses Stripe by then",
  async (t) => {
    const { register, refund, drain, drainWithoutKey, ...scene } = await setUpBilling(t);
    const { deps, stream, customerId, ledgerUnits, sends, pass } = scene;
    const { db } = deps;
    await scene.forgetProcessor();
    await updateAccount(db, stream.accountId, { stripeCustomerId: null });
    const id = await register(8);
    pass(5);
    await drainWithoutKey();
    t.is(await ledgerUnits(), 8);
    await updateAccount(db, stream.accountId, { stripeCustomerId: customerId });

    await refund(id, 5);
    await drain();
    t.is(await ledgerUnits(), 3);

    // A worker without Stripe's key does not delay it.
    await refund(id, 1);
    await register(9);
    pass(5);
    t.like(await drainWithoutKey(), { kind: "delayed", cause: "misconfigured" });
    t.is(await ledgerUnits(), 2);
    t.is(sends(), 0);
  },
);

test("concurrent partial refunds never take back more than was registered", async (t) => {
  const { register, refund, drain, deps, stream, billed, recorded } = await setUpBilling(t);
  const id = await register(50);

  const results = await Promise.allSettled(Array.from({ length: 20 }, () => refund(id, 3)));

  const rejected = results.filter((result) => result.status === "rejected");
  t.is(results.length - rejected.length, 16);
  for (const { reason } of rejected) {
    t.true(reason instanceof DomainError && reason.code === "request_invalid");
  }
  t.like(await readAccountSums(deps.db, stream.accountId), { refunded: 48n, usage: 2n, total: 2n });
  await drain();
  t.deepEqual(billed(), await recorded());
});
