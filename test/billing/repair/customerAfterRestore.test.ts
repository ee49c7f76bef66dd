import test from "ava";
import type { ExecutionContext } from "ava";
import { guardUsage } from "../../../modules/billing/holdUsage.ts";
import { settleAfterRestore } from "../../../modules/billing/reconciliation/settleAfterRestore.ts";
import { readJson } from "../../cli/runImpact.ts";
import { setUpRestore, whileReadingSums } from "./restoreSetup.ts";
import { FORGOTTEN_AFTER_SECONDS, LAG_SECONDS, MINUTE } from "./retriedSetup.ts";

type RestoreScene = Awaited<ReturnType<typeof setUpRestore>>;

/** Returns a function that gives the scene's organization a customer, in one of its databases. */
const createCustomerSetter =
  (t: ExecutionContext, { impact, stream }: RestoreScene) =>
  async (opened: RestoreScene["original"], customerId: string): Promise<void> => {
    const ids = ["--stripe-customer", customerId, "--stripe-subscription", "none"];
    const run = await impact(opened, "org", "update", stream.accountId, ...ids);
    t.is(run.exitCode, 0, run.stderr);
  };

for (const [sentTo, refunded] of [
  ["the earlier customer", 0],
  ["the earlier customer", 3],
  ["the new customer", 0],
  ["the new customer", 3],
  ["no customer", 3],
] as const) {
  test(`pending usage of which ${refunded} units are refunded is billed once if a lost history has changed the customer and sent it to ${sentTo}`, async (t) => {
    const scene = await setUpRestore(t);
    const { control, impact, pass, register, drain, original } = scene;
    const setCustomer = createCustomerSetter(t, scene);
    const { customerId: earlierCustomerId } = control.addCustomer({});
    const sumBilled = (): number =>
      [earlierCustomerId, scene.customerId]
        .flatMap((customerId) => control.usage({ customerId }))
        .reduce((sum, { value }) => sum + value, 0);
    await setCustomer(original, earlierCustomerId);
    await register(original, 1);
    pass(5);
    await drain(original);
    const pending = await register(original, 10);
    if (refunded > 0) {
      await scene.refund(original, pending, refunded);
    }
    pass(2 * MINUTE);
    const { continued, restored } = await scene.fork(original);
    if (sentTo === "the earlier customer") {
      await drain(continued);
    }
    await setCustomer(continued, scene.customerId);
    if (sentTo === "the new customer") {
      await drain(continued);
    }
    pass(FORGOTTEN_AFTER_SECONDS);
    await guardUsage(restored.deps);
    pass(LAG_SECONDS);
    await setCustomer(restored, scene.customerId);

    await impact(restored, "usage", "compare-and-release");

    await drain(restored);
    const retried = await impact(restored, "usage", "retry", "--all");
    t.is(retried.exitCode, 0, retried.stdout);
    await drain(restored);
    t.is(sumBilled(), 11 - refunded);
  });
}

/** A restored database whose usage a lost history has sent to a new customer. The comparison has not begun. */
const setUpSentElsewhere = async (t: ExecutionContext, seconds: number) => {
  const scene = await setUpRestore(t);
  const { control, pass, register, drain, original } = scene;
  const setCustomer = createCustomerSetter(t, scene);
  await setCustomer(original, control.addCustomer({}).customerId);
  await register(original, 1);
  pass(5);
  await drain(original);
  pass(MINUTE);
  for (let second = 0; second < seconds; second += 1) {
    await register(original, 10);
    pass(1);
  }
  pass(5);
  const { continued, restored } = await scene.fork(original);
  await setCustomer(continued, scene.customerId);
  t.is((await drain(continued)).kind, "done");
  t.deepEqual(scene.billedByMinute(), { 1: 10 * seconds });
  pass(FORGOTTEN_AFTER_SECONDS);
  await guardUsage(restored.deps);
  pass(LAG_SECONDS);
  return { ...scene, restored, setCustomer: () => setCustomer(restored, scene.customerId) };
};

test("one command retries all usage of a minute that a lost history has sent to a new customer", async (t) => {
  const { impact, drain, restored, setCustomer, billedByMinute } = await setUpSentElsewhere(t, 3);
  await setCustomer();
  await impact(restored, "usage", "compare-and-release");

  const retried = await impact(restored, "usage", "retry", "--all", "--json");

  t.is(retried.exitCode, 0, retried.stdout);
  t.is((await drain(restored)).kind, "done");
  t.deepEqual(billedByMinute(), { 1: 30 });
});

test("pending usage is not billed twice if the customer was removed before the restored time, and a lost history has set another and sent it", async (t) => {
  const scene = await setUpRestore(t);
  const { control, impact, pass, register, drain, original } = scene;
  const setCustomer = createCustomerSetter(t, scene);
  const { customerId: earlierCustomerId } = control.addCustomer({});
  await setCustomer(original, earlierCustomerId);
  await register(original, 1);
  pass(5);
  await drain(original);
  await setCustomer(original, "none");
  pass(2 * MINUTE);
  await register(original, 10);
  pass(5);
  const { continued, restored } = await scene.fork(original);
  await setCustomer(continued, scene.customerId);
  await drain(continued);
  t.deepEqual(scene.billedByMinute(), { 2: 10 });
  pass(FORGOTTEN_AFTER_SECONDS);
  await guardUsage(restored.deps);
  pass(LAG_SECONDS);

  const compared = await impact(restored, "usage", "compare-and-release", "--json");

  t.like(readJson(compared), [{ quantity: 10, result: "unclear" }]);
  await drain(restored);
  const early = await impact(restored, "usage", "retry", "--all");
  t.is(early.exitCode, 1);
  t.regex(early.stdout, /has no Stripe customer/u);
  await setCustomer(restored, scene.customerId);
  const retried = await impact(restored, "usage", "retry", "--all", "--json");
  t.like(readJson(retried), [{ result: "delivered" }]);
  await drain(restored);
  t.deepEqual(scene.billedByMinute(), { 2: 10 });
});

test("usage that a lost history has sent to a new customer is not sent again if the customer is set during the comparison", async (t) => {
  const { impact, drain, restored, setCustomer, billedByMinute } = await setUpSentElsewhere(t, 1);
  const compare = (billing = restored.deps.billing) =>
    settleAfterRestore(
      { ...restored.deps, billing },
      { operator: "maria", since: null, isDryRun: false },
      new AbortController().signal,
    );

  await t.throwsAsync(compare(whileReadingSums(restored.deps.billing, setCustomer)), {
    message: /changed in the meantime; try again/u,
  });

  await compare();
  const retried = await impact(restored, "usage", "retry", "--all");
  t.is(retried.exitCode, 0, retried.stdout);
  await drain(restored);
  t.deepEqual(billedByMinute(), { 1: 10 });
});
