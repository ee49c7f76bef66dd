import test from "ava";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import { sql, timestamp } from "../../../db/sql.ts";
import { drainUsage, sendMeterEvent } from "../drainUsage.ts";
import { createRegistrationWriter } from "../../../modules/registrations/createRegistrationWriter.ts";
import { readJson } from "../../cli/runImpact.ts";
import { createTestOrganization, registrationOf } from "../../support/factories.ts";
import { runBehindLocks } from "../../support/lockWaits.ts";
import { NOON, setUpRestore, whileReadingSums } from "./restoreSetup.ts";

test("units of a customer that two accounts have had explain the usage of one of them, if both are retried at the same time", async (t) => {
  const scene = await setUpRestore(t);
  const { original, customerId, control, stream, impact, pass } = scene;
  const { db } = original;
  const { id: other } = await createTestOrganization(db, {
    clock: original.deps.clock,
    stripeCustomerId: control.addCustomer({}).customerId,
  });
  const ids = await db.anyFirst(sql.type(z.object({ id: z.bigint() }))`
    INSERT INTO meter_event
      (
        account_id, mode, kind, second, sequence, quantity, identifier, processor, customer_id, state,
        outcome_unknown, sealed_at, settled_at
      )
    SELECT
      account_id, 'live', 'tree', ${NOON}, 1, 10, 'event-' || account_id, 'stripe', ${customerId}, 'blocked', true,
      now(), ${timestamp(new Date(NOON * 1000))}
    FROM unnest(${sql.array([stream.accountId, other], "uuid")}) AS account_id
    RETURNING id
  `);
  await scene.reportElsewhere(10, NOON);
  pass(16 * 60);
  const retry = (id: bigint | undefined) =>
    impact(original, "usage", "retry", String(id), "--json");

  const runs = await runBehindLocks(
    db,
    (transaction) =>
      transaction.query(sql.typeAlias("void")`SELECT FROM meter_event ORDER BY id FOR UPDATE`),
    () => retry(ids[0]),
    () => retry(ids[1]),
  );

  t.is(runs.filter(({ exitCode }) => exitCode === 0).length, 1);
  t.true(runs.some(({ stdout }) => stdout.includes("changed in the meantime; try again")));
  const states = await db.anyFirst(sql.type(z.object({ state: z.string() }))`
    SELECT state FROM meter_event ORDER BY state
  `);
  t.deepEqual(states, ["blocked", "delivered"]);
  const repeated = await impact(original, "usage", "retry", "--all", "--json");
  t.like(readJson(repeated), [{ result: "waiting" }]);
});

const LAG_SECONDS = 16 * 60;

/**
 * Two accounts that have had the same customer, each with an event of 10 units of the same minute in doubt. Stripe has some
 * units of that minute, which it may have accepted under the identifier of one of the events.
 */
const setUpInDoubt = async (
  t: ExecutionContext,
  found: number,
  doubt: "in doubt" | "attempted long ago",
  accepted: "neither" | "the first" | "the second" = "neither",
) => {
  const scene = await setUpRestore(t);
  const { original, customerId, control, pass } = scene;
  const { db, deps } = original;
  const present = control.addSubscriber({});
  const { id: other } = await createTestOrganization(db, {
    clock: deps.clock,
    stripeCustomerId: present.customerId,
    stripeSubscriptionId: present.subscriptionId,
  });
  await scene.register(original, 10);
  await createRegistrationWriter(deps).register(registrationOf(other, { count: 10 }));
  const identifiers = {
    neither: "event-elsewhere",
    "the first": `event-${scene.stream.accountId}`,
    "the second": `event-${other}`,
  };
  await scene.reportElsewhere(found, NOON, customerId, identifiers[accepted]);
  pass(21 * 60 * 60);
  const now = deps.clock.now().getTime();
  const firstAttemptAt = timestamp(new Date(NOON * 1000));
  const inDoubtSince =
    doubt === "in doubt" ? timestamp(new Date(now - LAG_SECONDS * 1000)) : sql.fragment`NULL`;
  const ids = await db.anyFirst(sql.type(z.object({ id: z.bigint() }))`
    WITH event AS (
      INSERT INTO meter_event
        (
          account_id, mode, kind, second, sequence, quantity, identifier, processor, customer_id, state,
          attempts, first_attempt_at, outcome_unknown, in_doubt_since, sealed_at
        )
      SELECT
        id, 'live', 'tree', ${NOON}, 1, 10, 'event-' || id, 'stripe', ${customerId}, 'sending',
        1, ${firstAttemptAt}, true, ${inDoubtSince}, now()
      FROM account
      ORDER BY id = ${other}
      RETURNING *
    ),
    sealed AS (
      UPDATE usage_fact
      SET meter_event_id = event.id
      FROM event
      WHERE usage_fact.account_id = event.account_id
    )
    SELECT id FROM event ORDER BY id
  `);
  const send = (place: number, { billing } = deps) =>
    sendMeterEvent({ ...deps, billing }, ids[place] ?? 0n, new AbortController().signal);
  return {
    ...scene,
    ids,
    send,
    drainBoth: async () => {
      for (const accountId of [scene.stream.accountId, other]) {
        await drainUsage(
          deps,
          { ...scene.stream, accountId },
          { signal: new AbortController().signal, onResult: () => undefined },
        );
      }
    },
    sumBilled: () =>
      [customerId, present.customerId]
        .flatMap((each) => control.usage({ customerId: each }))
        .reduce((sum, { value }) => sum + value, 0),
  };
};

for (const doubt of ["in doubt", "attempted long ago"] as const) {
  for (const [found, accepted] of [
    [0, "neither"],
    [4, "neither"],
    [14, "neither"],
    [20, "neither"],
    [10, "the first"],
    [10, "the second"],
  ] as const) {
    test(`two events of a customer's minute that are ${doubt} are billed once if Stripe has ${found} of their 20 units and accepted ${accepted}`, async (t) => {
      const { send, pass, drainBoth, sumBilled } = await setUpInDoubt(t, found, doubt, accepted);

      t.like(await send(1), { kind: "delayed" });
      await send(0);
      for (let round = 0; round < 3; round += 1) {
        pass(LAG_SECONDS);
        await drainBoth();
      }

      t.is(sumBilled(), 20);
    });
  }
}

test("two events of a customer's minute that are in doubt are blocked if Stripe's units explain neither", async (t) => {
  const { send } = await setUpInDoubt(t, -3, "in doubt");

  t.like(await send(0), { kind: "settled", state: "blocked" });
  t.like(await send(1), { kind: "settled", state: "blocked" });
});

test("an event in doubt is checked again if another event of its minute was settled while the sum was read", async (t) => {
  const scene = await setUpInDoubt(t, 10, "in doubt", "the first");
  const { db, deps } = scene.original;
  await db.query(sql.typeAlias("void")`
    UPDATE meter_event SET state = 'sealed' WHERE id = ${scene.ids[0] ?? 0n}
  `);
  const billing = whileReadingSums(deps.billing, async () => {
    t.like(await scene.send(0), { kind: "settled", state: "delivered" });
  });

  t.like(await scene.send(1, { ...deps, billing }), { kind: "delayed", cause: "early" });

  for (let round = 0; round < 2; round += 1) {
    scene.pass(LAG_SECONDS);
    await scene.drainBoth();
  }
  t.is(scene.sumBilled(), 20);
});
