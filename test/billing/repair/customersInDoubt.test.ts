import test from "ava";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { isFailed } from "../../../modules/billing/meterEvents.rules.ts";
import type { MeterEventState } from "../../../modules/billing/meterEvents.rules.ts";
import { mayBeAt } from "../../../modules/billing/reconciliation/usageInDoubt.rules.ts";
import { minuteOf } from "../../../modules/billing/usage.rules.ts";
import { guardUsage } from "../../../modules/billing/holdUsage.ts";
import { findOpenUsage } from "../../../modules/billing/reconciliation/requireUnchanged.ts";
import { readJson } from "../../cli/runImpact.ts";
import { reportRefusal } from "./acknowledgedSetup.ts";
import { NOON, setUpRestore } from "./restoreSetup.ts";
import { FORGOTTEN_AFTER_SECONDS, LAG_SECONDS, MINUTE, setUpRetried } from "./retriedSetup.ts";

const reconciled = z.looseObject({
  streams: z.array(
    z.looseObject({
      customer_id: z.string().nullable(),
      differences: z.array(z.looseObject({ difference_id: z.int() })),
    }),
  ),
});

const isInDoubt = (state: MeterEventState): boolean => isFailed(state) || state === "waived";

/** Usage of another customer, or of none, that the present customer has without an explanation, after a restore. */
const setUpUnexplained = async (
  t: ExecutionContext,
  customer: "none" | "another",
  isWaived: boolean,
) => {
  const scene = await setUpRetried(t, { customer });
  const { restored, usageId, drain, pass } = scene;
  const run = (...args: readonly string[]) => scene.impact(restored, "usage", ...args);
  await scene.compare();
  await scene.setCustomer();
  // The present customer is compared because it has other usage.
  pass(MINUTE);
  await scene.register(restored, 1);
  pass(5);
  await drain(restored);
  const billed = scene.billedByMinute();
  if (isWaived) {
    await run("waive", usageId, "--reason", "not known to be sent");
  }
  pass(LAG_SECONDS);
  return { ...scene, run, billed };
};

for (const customer of ["none", "another"] as const) {
  for (const isWaived of [false, true]) {
    test(`a difference is not acknowledged while ${isWaived ? "waived" : "failed"} usage may explain it that was registered with customer: ${customer}`, async (t) => {
      const scene = await setUpUnexplained(t, customer, isWaived);
      const { restored, usageId, drain, run, billed } = scene;
      const [difference] = reconciled
        .parse(readJson(await run("reconcile", "--json")))
        .streams.flatMap(({ differences }) => differences);
      const id = String(difference?.difference_id);

      const acknowledged = await run("acknowledge-drift", id, "--reason", "not explained");

      t.like(await scene.check(usageId), [{ result: "delivered" }]);
      await drain(restored);
      t.deepEqual(scene.billedByMinute(), billed);
      t.is(acknowledged.exitCode, 1);
      t.true(
        acknowledged.stderr.includes(`the processor may have meter event ${usageId}, which`),
        acknowledged.stderr,
      );
    });
  }
}

for (const isWaived of [false, true]) {
  test(`a correction takes back no units that ${isWaived ? "waived" : "failed"} usage of an earlier customer may explain`, async (t) => {
    const scene = await setUpUnexplained(t, "another", isWaived);
    const { restored, usageId, drain, run, billed } = scene;
    const restoredAt = new Date(NOON * 1000).toISOString();
    const options = ["--restored-at", restoredAt, "--reason", "failover", "--json"];

    const corrected = await run("correct", ...options);

    await drain(restored);
    t.deepEqual(scene.billedByMinute(), billed);
    const reason = `the processor may have meter event ${usageId}; retry first, with --assume if the result is unclear, or settle what was billed by hand or must never be billed`;
    t.like(readJson(corrected), { corrections: [{ action: "wait", reason }] });
    t.like(await scene.check(usageId), [{ result: "delivered" }]);
    t.like(readJson(await run("correct", ...options)), { corrections: [] });
  });
}

test("a difference is not acknowledged while a waived refund may explain it that would have gone to an earlier customer", async (t) => {
  const refund = { units: 3, state: "held" } as const;
  const scene = await setUpRetried(t, { customer: "another", refund });
  const { restored, usageId, customerId, pass } = scene;
  const run = (...args: readonly string[]) => scene.impact(restored, "usage", ...args);
  await scene.setCustomer();
  await scene.compare();
  const refundId = await scene.findRefundId();
  await run("waive", usageId, refundId, "--reason", "not known to be sent");
  await scene.retry(usageId, "--assume", "delivered", "--customer", customerId);
  pass(LAG_SECONDS);
  const [difference] = reconciled
    .parse(readJson(await run("reconcile", "--json")))
    .streams.flatMap(({ differences }) => differences);
  const id = String(difference?.difference_id);

  const acknowledged = await run("acknowledge-drift", id, "--reason", "not explained");

  t.is(acknowledged.exitCode, 1);
  t.true(
    acknowledged.stderr.includes(`the processor may have meter event ${refundId}, which`),
    acknowledged.stderr,
  );
  t.like(await scene.check(refundId), [{ result: "delivered" }]);
  t.is((await run("reconcile")).exitCode, 0);
});

test("usage is open at each customer at which a retry looks for it", async (t) => {
  const { original, stream, customerId } = await setUpRestore(t);
  const { db } = original;
  const events = [
    ["blocked", customerId, 1],
    ["blocked", customerId, -1],
    ["blocked", "cus_earlier", 1],
    ["blocked", "cus_earlier", -1],
    ["waived", "cus_earlier", -1],
    ["rejected", null, 1],
    ["expired", null, -1],
    ["held", "cus_earlier", -1],
    ["delivered", customerId, 1],
  ] as const;
  const open: Record<string, number[]> = { [customerId]: [], cus_earlier: [], cus_other: [] };
  const ids: bigint[] = [];
  for (const [place, [state, customer, quantity]] of events.entries()) {
    const id = await db.oneFirst(sql.type(z.object({ id: z.bigint() }))`
      INSERT INTO meter_event
        (
          account_id, mode, kind, second, sequence, quantity, identifier, processor, customer_id, state,
          outcome_unknown, sealed_at
        )
      VALUES
        (
          ${stream.accountId}, 'live', 'tree', ${NOON + place}, 1, ${quantity}, ${`event-${place}`}, 'stripe',
          ${customer}, ${state}, true, now()
        )
      RETURNING id
    `);
    ids.push(id);
    const event = { processor: "stripe", customerId: customer, quantity, state } as const;
    for (const [of, places] of Object.entries(open)) {
      if (isInDoubt(state) && mayBeAt(of, event, customerId)) {
        places.push(place);
      }
    }
  }
  t.deepEqual(open, {
    [customerId]: [0, 1, 2, 4, 5, 6],
    cus_earlier: [2, 3, 4],
    cus_other: [],
  });

  for (const [of, places] of Object.entries(open)) {
    const found = await findOpenUsage(
      db,
      {
        processor: "stripe",
        mode: "live",
        kind: "tree",
        customerId: of,
        accountIds: [stream.accountId],
      },
      minuteOf(NOON),
    );
    t.deepEqual(
      found.map(({ id }) => ids.indexOf(id)),
      places,
    );
  }
});

test("usage that the present customer has is not sent if the earlier one has units that may be a part of it", async (t) => {
  const scene = await setUpRetried(t, { customer: "another" });
  await scene.reportElsewhere(4, NOON, scene.earlierCustomerId);
  await scene.compare();
  await scene.setCustomer();
  scene.pass(LAG_SECONDS);

  t.like(await scene.check(scene.usageId), [{ result: "delivered" }]);

  await scene.drain(scene.restored);
  t.deepEqual(scene.billedByMinute(), { 0: 10 });
});

test("usage of which two customers may have parts is not sent", async (t) => {
  const refund = { units: 3, state: "unsealed" } as const;
  const scene = await setUpRetried(t, { customer: "another", refund });
  await scene.reportElsewhere(4, NOON, scene.earlierCustomerId);
  await scene.compare();
  await scene.setCustomer();
  scene.pass(LAG_SECONDS);
  t.deepEqual(scene.billedByMinute(), { 0: 7 });

  const retried = await scene.retry(scene.usageId);

  t.is(retried.exitCode, 1);
  t.regex(retried.stdout, /more than one customer has units of that minute/u);
  await scene.drain(scene.restored);
  t.deepEqual(scene.billedByMinute(), { 0: 7 });
});

test("usage of which two customers have parts is settled, and their differences are acknowledged", async (t) => {
  const scene = await setUpRetried(t, { customer: "another" });
  const { restored, usageId, pass } = scene;
  // As after a retry that has found 4 units at the earlier customer.
  await scene.reportElsewhere(4, NOON, scene.earlierCustomerId);
  await scene.reportElsewhere(-4, NOON);
  await scene.compare();
  // Both customers are compared because they have other usage.
  const registerOther = async () => {
    pass(MINUTE);
    await scene.register(restored, 1);
    pass(5);
    await scene.drain(restored);
  };
  await registerOther();
  await scene.setCustomer();
  await registerOther();
  pass(LAG_SECONDS);
  const billed = scene.billedByMinute();
  const run = (...args: readonly string[]) => scene.impact(restored, "usage", ...args);
  const retried = await scene.retry(usageId);
  t.regex(retried.stdout, /settle it with the number of a document or a ticket/u);

  const settled = await run("settle", usageId, "--invoice-item", "ticket-7", "--reason", "billed");

  t.is(settled.exitCode, 0, settled.stderr);
  const differences = reconciled
    .parse(readJson(await run("reconcile", "--json")))
    .streams.flatMap((stream) => stream.differences);
  t.is(differences.length, 2);
  for (const { difference_id } of differences) {
    const acknowledged = await run(
      "acknowledge-drift",
      String(difference_id),
      "--reason",
      "billed",
    );
    t.is(acknowledged.exitCode, 0, acknowledged.stderr);
  }
  t.is((await run("reconcile")).exitCode, 0);
  await scene.drain(restored);
  t.deepEqual(scene.billedByMinute(), billed);
});

test("the rest of usage of which the earlier customer has a part is sent if the present one has nothing of it", async (t) => {
  const scene = await setUpRetried(t, { customer: "another" });
  await scene.reportElsewhere(4, NOON, scene.earlierCustomerId);
  await scene.reportElsewhere(-10, NOON);
  await scene.compare();
  await scene.setCustomer();
  scene.pass(LAG_SECONDS);

  t.like(await scene.check(scene.usageId), [{ result: "waiting" }]);

  await scene.drain(scene.restored);
  t.deepEqual(scene.billedByMinute(), { 0: 6 });
});

test("an operator names which customer has usage that is assumed to be delivered", async (t) => {
  const scene = await setUpRetried(t, { customer: "another" });
  const { restored, usageId, customerId, earlierCustomerId, retry, impact } = scene;
  await scene.compare();
  await scene.setCustomer();
  const assume = (...args: readonly string[]) => retry(usageId, "--assume", "delivered", ...args);
  for (const [args, refusal] of [
    [[], `may be at ${earlierCustomerId} or ${customerId}; name`],
    [["--customer", "cus_unknown"], "cannot be at cus_unknown"],
  ] as const) {
    const refused = await assume(...args);
    t.is(refused.exitCode, 1);
    t.true(refused.stdout.includes(refusal), refused.stdout);
  }

  t.like(readJson(await assume("--customer", customerId)), [{ result: "delivered" }]);

  await scene.drain(restored);
  t.deepEqual(scene.billedByMinute(), { 0: 10 });
  scene.pass(LAG_SECONDS);
  t.is((await impact(restored, "usage", "reconcile")).exitCode, 0);
});

const eventRow = z.object({ id: z.bigint(), identifier: z.string() });

/**
 * A restored database in which 10 units are delivered at an earlier customer. Stripe has lost them, and the lost history has
 * reopened them and sent them to the present customer.
 */
const setUpReopened = async (t: ExecutionContext) => {
  const scene = await setUpRestore(t);
  const { original, control, impact, pass, drain } = scene;
  const setCustomer = (opened: typeof original, customerId: string) =>
    impact(opened, "org", "update", scene.stream.accountId, "--stripe-customer", customerId);
  const { customerId: earlierCustomerId } = control.addCustomer({});
  await setCustomer(original, earlierCustomerId);
  await scene.register(original, 10);
  pass(5);
  await drain(original);
  const { id, identifier } = await original.db.one(
    sql.type(eventRow)`SELECT id, identifier FROM meter_event`,
  );
  control.rejectAccepted({ identifier });
  pass(LAG_SECONDS);
  const { continued, restored } = await scene.fork(original);
  const reopen = (opened: typeof original) =>
    impact(opened, "usage", "reopen", String(id), "--reason", "lost");
  await setCustomer(continued, scene.customerId);
  t.is((await reopen(continued)).exitCode, 0);
  await drain(continued);
  t.deepEqual(scene.billedByMinute(), { 0: 10 });
  pass(FORGOTTEN_AFTER_SECONDS);
  await guardUsage(restored.deps);
  pass(LAG_SECONDS);
  t.is((await impact(restored, "usage", "release")).exitCode, 0);
  await setCustomer(restored, scene.customerId);
  return {
    ...scene,
    restored,
    earlierCustomerId,
    reopen: () => reopen(restored),
    retry: (...args: readonly string[]) => impact(restored, "usage", "retry", String(id), ...args),
    report: async () => {
      await reportRefusal(restored.deps, identifier);
      pass(LAG_SECONDS);
    },
  };
};

test("usage that a lost history has reopened and sent to a new customer is not reopened again", async (t) => {
  const scene = await setUpReopened(t);

  const reopened = await scene.reopen();

  await scene.drain(scene.restored);
  t.deepEqual(scene.billedByMinute(), { 0: 10 });
  t.is(reopened.exitCode, 1);
  t.true(
    reopened.stderr.includes(`at ${scene.customerId}: the processor has its usage`),
    reopened.stderr,
  );
});

for (const command of ["reopen", "retry"] as const) {
  test(`a ${command} sends no usage that may be acknowledged drift of the organization's new customer`, async (t) => {
    const scene = await setUpReopened(t);
    const { restored, customerId, pass, drain } = scene;
    // The new customer is compared because it has other usage.
    pass(MINUTE);
    await scene.register(restored, 1);
    pass(5);
    await drain(restored);
    const billed = scene.billedByMinute();
    pass(LAG_SECONDS);
    const run = (...args: readonly string[]) => scene.impact(restored, "usage", ...args);
    const difference = reconciled
      .parse(readJson(await run("reconcile", "--json")))
      .streams.find(({ customer_id }) => customer_id === customerId)?.differences[0];
    const id = String(difference?.difference_id);
    t.is((await run("acknowledge-drift", id, "--reason", "not explained")).exitCode, 0);
    if (command === "retry") {
      await scene.report();
    }

    const refused = await scene[command]();

    await drain(restored);
    t.deepEqual(scene.billedByMinute(), billed);
    t.is(refused.exitCode, 1);
    const reason = `at ${customerId}: drift of that minute was acknowledged, and may be this usage`;
    t.true((refused.stdout + refused.stderr).includes(reason), refused.stdout + refused.stderr);
    if (command === "retry") {
      const assumed = await scene.retry("--assume", "delivered", "--customer", customerId);
      t.is(assumed.exitCode, 0, assumed.stderr);
      await drain(restored);
      t.deepEqual(scene.billedByMinute(), billed);
    }
  });
}
