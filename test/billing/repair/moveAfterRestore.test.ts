import { AsyncLocalStorage } from "node:async_hooks";
import test from "ava";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import { lockDeployment } from "../../../modules/billing/deployment.sql.ts";
import { revokeLedgerEvents } from "../../../modules/billing/ledgerEvents.sql.ts";
import { sql } from "../../../db/sql.ts";
import { releaseFacts } from "../../../modules/billing/usageFacts.sql.ts";
import { guardUsage, holdUsage, releaseUsage } from "../../../modules/billing/holdUsage.ts";
import { settleAfterRestore } from "../../../modules/billing/reconciliation/settleAfterRestore.ts";
import { drainUsage } from "../drainUsage.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import { refundRegistration } from "../../../modules/registrations/refundRegistration.ts";
import { readEvents } from "../../events/readEvents.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";
import { awaitBlocked, endsOrBlocks, runBehindLocks } from "../../support/lockWaits.ts";
import { NOON, setUpRestore, whileReadingSums } from "./restoreSetup.ts";

const LAG_SECONDS = 16 * 60;
const FORGOTTEN_AFTER = 3 * 24 * 60 * 60;
const USAGE_EVENTS = ["usage.failed", "usage.recovered"] as const;
const MOVE = ["deployment", "move-to-stripe"] as const;
const COMPARE_AND_RELEASE = ["usage", "compare-and-release"] as const;

/**
 * A restored database whose usage is held. The ledger has 10 units of an organization, or is about to record them. The lost
 * history has given it a Stripe customer and moved them. Another organization has a unit that is not sealed.
 */
const setUpMoved = async (
  t: ExecutionContext,
  { state }: { readonly state: "delivered" | "sealed" },
) => {
  const scene = await setUpRestore(t);
  const { control, original, impact, pass } = scene;
  const { customerId } = control.addCustomer({});
  const { id: accountId } = await createTestOrganization(original.db, original.deps);
  const stream = { accountId, mode: "live", kind: "tree" } as const;
  const writer = createRegistrationWriter(original.deps);
  const { registration } = await writer.register(registrationOf(accountId, { count: 10 }));
  await original.db.query(sql.typeAlias("void")`
    WITH event AS (
      INSERT INTO meter_event
        (account_id, mode, kind, second, sequence, quantity, identifier, processor, state, sealed_at)
      VALUES (${accountId}, 'live', 'tree', ${NOON}, 1, 10, 'event-1', 'ledger', ${state}, now())
      RETURNING *
    ),
    entry AS (
      INSERT INTO ledger_usage (identifier, account_id, mode, kind, second, quantity, recorded_at)
      SELECT identifier, account_id, mode, kind, second, quantity, now() FROM event WHERE state = 'delivered'
    )
    UPDATE usage_fact SET meter_event_id = event.id FROM event WHERE usage_fact.account_id = event.account_id
  `);
  await scene.register(original, 1);
  pass(5);
  const { continued, restored } = await scene.fork(original);
  type Opened = typeof restored;
  const drain = ({ deps }: Opened) =>
    drainUsage(deps, stream, { signal: new AbortController().signal, onResult: () => undefined });
  const setCustomer = async (opened: Opened): Promise<void> => {
    const run = await impact(opened, "org", "update", accountId, "--stripe-customer", customerId);
    t.is(run.exitCode, 0, run.stderr);
  };
  const move = async (opened: Opened): Promise<string> => {
    const run = await impact(opened, ...MOVE);
    t.is(run.exitCode, 0, run.stderr);
    return run.stderr;
  };
  await drain(continued);
  await setCustomer(continued);
  await move(continued);
  await drain(continued);
  pass(FORGOTTEN_AFTER);
  await guardUsage(restored.deps);
  pass(LAG_SECONDS);
  await setCustomer(restored);
  const sumBilled = (): number =>
    control.usage({ customerId }).reduce((sum, { value }) => sum + value, 0);
  t.is(sumBilled(), 10);
  return {
    ...scene,
    stream,
    restored,
    refund: (count: number) =>
      refundRegistration(
        restored.deps,
        { accountId, mode: "live", kind: "tree" },
        { id: registration.id, count, reason: null, idempotencyKey: null },
      ),
    move: () => move(restored),
    compareWhile: (work: () => Promise<void>) =>
      settleAfterRestore(
        { ...restored.deps, billing: whileReadingSums(restored.deps.billing, work) },
        { operator: "maria", since: null, isDryRun: false },
        new AbortController().signal,
      ),
    compare: async () => {
      pass(LAG_SECONDS);
      const run = await impact(restored, ...COMPARE_AND_RELEASE);
      t.is(run.exitCode, 0, run.stdout + run.stderr);
    },
    drain: () => drain(restored),
    sumBilled,
  };
};

for (const state of ["delivered", "sealed"] as const) {
  test(`a move to Stripe that a restore has lost, of usage that was ${state}, bills once if it is repeated before the comparison`, async (t) => {
    const { move, compare, drain, sumBilled } = await setUpMoved(t, { state });

    const said = await move();

    t.regex(said, /Moved 1 meter event/u);
    t.regex(said, /Nothing is sent: usage is held/u);
    t.notRegex(said, /workers send|Repeat the command/u);
    await compare();
    await drain();
    t.is(sumBilled(), 10);
    t.regex(await move(), /Moved 0 meter events/u);
  });
}

test("a comparison during which usage is moved to Stripe must be repeated", async (t) => {
  const { move, compareWhile, compare, drain, sumBilled } = await setUpMoved(t, {
    state: "delivered",
  });

  await t.throwsAsync(
    compareWhile(async () => {
      await move();
    }),
    { message: /in the meantime/u },
  );

  await compare();
  await drain();
  t.is(sumBilled(), 10);
});

test("usage of the ledger that a comparison has blocked before it broke off is moved to Stripe and compared there", async (t) => {
  const { move, compareWhile, compare, drain, sumBilled } = await setUpMoved(t, {
    state: "sealed",
  });
  await t.throwsAsync(compareWhile(() => Promise.reject(new Error("broken off"))));

  t.regex(await move(), /Moved 1 meter event/u);

  await compare();
  await drain();
  t.is(sumBilled(), 10);
});

test("usage of the ledger and its refunds that a comparison has blocked are released when they are moved", async (t) => {
  const scene = await setUpMoved(t, { state: "sealed" });
  const { restored, move, refund, compareWhile, compare, drain, sumBilled } = scene;
  await refund(3);
  await t.throwsAsync(compareWhile(() => Promise.reject(new Error("broken off"))));
  const readStates = () =>
    restored.db.anyFirst(sql.type(z.object({ state: z.string() }))`
      SELECT state FROM meter_event WHERE account_id = ${scene.stream.accountId} ORDER BY id
    `);
  const readUsageEvents = async () =>
    (await readEvents(restored.deps, scene.stream, { types: USAGE_EVENTS })).map(
      ({ type, data }) => ["count" in data && data.count, type],
    );
  t.deepEqual(await readStates(), ["blocked", "blocked"]);
  await restored.db.query(sql.typeAlias("void")`UPDATE refund SET dispatched_at = now()`);

  await move();

  t.deepEqual(await readStates(), ["superseded", "superseded"]);
  t.false(
    await restored.db.exists(sql.typeAlias("void")`
      SELECT FROM refund WHERE dispatched_at IS NOT NULL
    `),
  );
  const moved = [
    [10, "usage.failed"],
    [-3, "usage.failed"],
    [10, "usage.recovered"],
    [-3, "usage.recovered"],
  ];
  t.deepEqual(await readUsageEvents(), moved);
  await compare();
  await drain();
  t.is(sumBilled(), 7);
  t.deepEqual(await readUsageEvents(), [...moved, ...moved]);
});

test("usage can be held while a stream is moved to Stripe, which stops the move, and what was moved is compared", async (t) => {
  const { restored, impact, move, compare, drain, sumBilled } = await setUpMoved(t, {
    state: "delivered",
  });
  await releaseUsage(restored.deps, "maria");
  const outside = AsyncLocalStorage.snapshot();

  const { moving } = await restored.db.transaction(async (transaction) => {
    await transaction.query(sql.typeAlias("void")`
      SELECT FROM meter_event WHERE processor = 'ledger' FOR UPDATE
    `);
    const begun = outside(() => impact(restored, ...MOVE));
    await awaitBlocked(transaction);
    const hold = outside(() => holdUsage(restored.deps, { reason: "restore", by: "maria" }));
    t.true(await endsOrBlocks(transaction, hold, 2));
    return { moving: begun };
  });

  const stopped = await moving;
  t.is(stopped.exitCode, 1);
  t.regex(stopped.stderr, /usage was held in the meantime/u);
  t.regex(await move(), /Moved 0 meter events/u);
  await compare();
  await drain();
  t.is(sumBilled(), 10);
});

test("usage is not moved to Stripe any more once a hold has ended meanwhile", async (t) => {
  const { restored, impact, drain, sumBilled } = await setUpMoved(t, { state: "delivered" });

  const [, moved] = await runBehindLocks(
    restored.db,
    lockDeployment,
    () => releaseUsage(restored.deps, "maria"),
    () => impact(restored, ...MOVE),
  );

  t.is(moved.exitCode, 1);
  t.regex(moved.stderr, /the hold ended in the meantime/u);
  await drain();
  t.is(sumBilled(), 10);
});

for (const [rest, state, refunded] of [
  ["not sealed", null, 0],
  ["delivered", "delivered", 0],
  ["delivered after the part was moved", "sealed", 0],
  ["offset against a refund", "void", 4],
] as const) {
  test(`all units of usage of which a comparison has found a part in the ledger are moved to Stripe if the rest is ${rest}`, async (t) => {
    const scene = await setUpMoved(t, { state: "delivered" });
    const { restored, impact, pass, stream, refund, move, compare, drain, sumBilled } = scene;
    const { accountId } = stream;
    await restored.db.transaction(async (transaction) => {
      const part = await transaction.oneFirst(sql.type(z.object({ id: z.bigint() }))`
        UPDATE meter_event SET quantity = 6 WHERE account_id = ${accountId} RETURNING id
      `);
      await releaseFacts(transaction, part, 6);
    });
    if (refunded > 0) {
      await refund(refunded);
    }
    if (state !== null) {
      await restored.db.query(sql.typeAlias("void")`
        WITH event AS (
          INSERT INTO meter_event
            (
              account_id, mode, kind, second, sequence, quantity, already_reported, identifier, processor, state,
              sealed_at
            )
          VALUES
            (
              ${accountId}, 'live', 'tree', ${NOON}, 2, ${4 - refunded}, 6, 'event-2', 'ledger', ${state}, now()
            )
          RETURNING *
        )
        UPDATE usage_fact SET meter_event_id = event.id FROM event WHERE usage_fact.account_id = event.account_id
      `);
    }
    if (state === "sealed") {
      await restored.db.transaction((transaction) =>
        revokeLedgerEvents(
          transaction,
          { ...stream, fromSecond: NOON },
          {
            note: "moved to Stripe",
            revokedAt: restored.deps.clock.now(),
            limit: 1,
            withUnsettled: false,
          },
        ),
      );
      await restored.db.query(sql.typeAlias("void")`
        UPDATE meter_event SET state = 'delivered' WHERE identifier = 'event-2'
      `);
    }

    await move();

    await compare();
    await drain();
    t.is(sumBilled(), 10 - refunded);
    pass(LAG_SECONDS);
    const reconciled = await impact(restored, "usage", "reconcile", "--org", accountId);
    t.is(reconciled.exitCode, 0, reconciled.stdout);
  });
}
