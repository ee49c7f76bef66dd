import { mock } from "node:test";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import { readDeployment } from "../../../modules/billing/deployment.sql.ts";
import { readServerStatus } from "../../../db/connections/serverStatus.ts";
import { sql } from "../../../db/sql.ts";
import type { Run } from "../../cli/runImpact.ts";
import { readJson, runImpact } from "../../cli/runImpact.ts";
import { startStripeDouble } from "../../stripeDouble/startStripeDouble.ts";
import { copyDatabase, openTestPool, testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { NOON, setUpRestore } from "./restoreSetup.ts";

const test = testWithDatabase();

const MINUTE_MS = 60 * 1000;
const CORRECT = ["usage", "correct", "--restored-at", new Date(NOON * 1000).toISOString()] as const;
const HOLD = ["usage", "hold", "--reason", "restore"] as const;

/** Runs a command on a machine whose clock differs from the database's. The other tests of this process must wait. */
const runOnClock = async (
  databaseUrl: string,
  minutesAhead: number,
  args: readonly string[],
  { env, ...options }: Parameters<typeof runImpact>[1] = {},
): Promise<Run> => {
  mock.timers.enable({ apis: ["Date"], now: Date.now() + minutesAhead * MINUTE_MS });
  try {
    return await runImpact(args, { ...options, env: { DATABASE_URL: databaseUrl, ...env } });
  } finally {
    mock.timers.reset();
  }
};

/** A deployment at Stripe, and commands on machines whose clocks are 20 minutes ahead of the database, or an hour behind it. */
const setUpWrongClock = async (t: ExecutionContext) => {
  const scene = await setUpRestore(t);
  const { control, double, original } = scene;
  const impactOn = (minutesAhead: number, args: readonly string[]) =>
    runOnClock(original.url, minutesAhead, args, {
      env: { STRIPE_SECRET_KEY: double.secretKey, STRIPE_API_BASE: double.url },
      clock: { now: () => new Date(control.now() * 1000 + minutesAhead * MINUTE_MS) },
    });
  return {
    ...scene,
    impactAhead: (...args: readonly string[]) => impactOn(20, args),
    impactBehind: (...args: readonly string[]) => impactOn(-60, args),
  };
};

test.serial(
  "a hold begins when the database's clock says, on a machine whose clock is slow",
  async (t) => {
    const { db, databaseUrl } = t.context;
    const { now } = await readServerStatus(db);

    const run = await runOnClock(databaseUrl, -20, HOLD);

    t.is(run.exitCode, 0, run.stderr);
    const { hold } = await readDeployment(db);
    t.true(hold !== null && hold.at >= now, hold?.at.toISOString());
  },
);

test.serial(
  "a comparison after a restore waits for the lag on a machine whose clock is fast",
  async (t) => {
    const { databaseUrl } = t.context;
    await runImpact(HOLD, { env: { DATABASE_URL: databaseUrl } });

    const run = await runOnClock(databaseUrl, 20, ["usage", "compare-and-release"]);

    t.is(run.exitCode, 1);
    t.regex(run.stderr, /sums may lag until/u);
  },
);

test.serial("a hold does not end before it began, on a machine whose clock is slow", async (t) => {
  const { db, databaseUrl } = t.context;
  await runImpact(HOLD, { env: { DATABASE_URL: databaseUrl } });
  const { hold } = await readDeployment(db);

  const run = await runOnClock(databaseUrl, -20, ["usage", "release"]);

  t.is(run.exitCode, 0, run.stderr);
  const { releasedAt } = await readDeployment(db);
  t.true(hold !== null && releasedAt !== null && releasedAt > hold.at, releasedAt?.toISOString());
});

for (const command of ["retry", "reopen"] as const) {
  test.serial(`${command} waits for the lag on a machine whose clock is fast`, async (t) => {
    const { original, register, drain, pass, control, impactAhead } = await setUpWrongClock(t);
    await register(original, 5);
    pass(5);
    await drain(original);
    const { id, identifier } = await original.db.one(
      sql.type(z.object({ id: z.bigint(), identifier: z.string() }))`
        UPDATE meter_event
        SET state = ${command === "retry" ? "blocked" : "delivered"}, outcome_unknown = ${command === "retry"}
        RETURNING id, identifier
      `,
    );
    // As long as Stripe's sums lag.
    control.rejectAccepted({ identifier });
    pass(2 * 60);

    const run = await impactAhead("usage", command, String(id), "--reason", "lost");

    t.is(run.exitCode, 1);
    t.regex(run.stdout + run.stderr, /sums may lag for another 13 minutes/u);
  });
}

test.serial("a waiver on a machine whose clock is slow does not shorten the lag", async (t) => {
  const { original, register, drain, pass, control, impact, impactBehind } =
    await setUpWrongClock(t);
  await register(original, 5);
  pass(5);
  await drain(original);
  const { id, identifier } = await original.db.one(
    sql.type(z.object({ id: z.bigint(), identifier: z.string() }))`
      UPDATE meter_event SET state = 'blocked', outcome_unknown = true RETURNING id, identifier
    `,
  );
  // As long as Stripe's sums lag.
  control.rejectAccepted({ identifier });
  pass(2 * 60);

  const waived = await impactBehind("usage", "waive", String(id), "--reason", "invoiced by hand");

  t.is(waived.exitCode, 0, waived.stderr);
  const retried = await impact(original, "usage", "retry", String(id));
  t.is(retried.exitCode, 1);
  t.regex(retried.stdout, /sums may lag for another 1[56] minutes/u);
});

test.serial(
  "corrections after a failover wait for the lag on a machine whose clock is fast",
  async (t) => {
    const { pass, impactAhead } = await setUpWrongClock(t);
    pass(5 * 60);

    const run = await impactAhead(...CORRECT, "--reason", "failover");

    t.is(run.exitCode, 1);
    t.regex(run.stderr, /sums may lag for 15 minutes/u);
  },
);

test.serial(
  "a minute with recent deliveries is not corrected on a machine whose clock is fast",
  async (t) => {
    const { original, register, drain, pass, reportElsewhere, impactAhead } =
      await setUpWrongClock(t);
    await register(original, 5);
    await reportElsewhere(24, NOON);
    pass(30 * 60);
    await drain(original);
    pass(2 * 60);

    const run = await impactAhead(...CORRECT, "--reason", "failover", "--json");

    t.is(run.exitCode, 1, run.stderr);
    t.like(readJson(run), { corrections: [{ action: "wait" }] });
  },
);

test.serial("a minute whose sum may lag is no drift on a machine with a fast clock", async (t) => {
  const { original, register, drain, pass, control, impactAhead } = await setUpWrongClock(t);
  await register(original, 5);
  pass(5);
  await drain(original);
  const identifier = await original.db.oneFirst(
    sql.type(z.object({ identifier: z.string() }))`SELECT identifier FROM meter_event`,
  );
  // As long as Stripe's sums lag.
  control.rejectAccepted({ identifier });
  pass(2 * 60);

  const run = await impactAhead("usage", "reconcile", "--json");

  t.is(run.exitCode, 0, run.stdout + run.stderr);
  t.like(readJson(run), { streams: [] });
});

const DAY_MINUTES = 24 * 60;

test.serial(
  "move-to-stripe moves the usage of the current cycle on a machine whose clock is fast",
  async (t) => {
    const url = await copyDatabase(t);
    const db = await openTestPool(t, url);
    const double = await startStripeDouble();
    t.teardown(double.close);
    const { customerId } = double.control.addCustomer({});
    const { id } = await createTestOrganization(db, { stripeCustomerId: customerId });
    await db.query(sql.typeAlias("void")`
      INSERT INTO meter_event
        (account_id, mode, kind, second, sequence, quantity, identifier, processor, state, sealed_at)
      VALUES (${id}, 'live', 'tree', extract(epoch FROM now())::bigint, 1, 3, ${id}, 'ledger', 'delivered', now())
    `);

    const run = await runOnClock(
      url,
      40 * DAY_MINUTES,
      ["deployment", "move-to-stripe", "--dry-run", "--json"],
      { env: { STRIPE_SECRET_KEY: double.secretKey, STRIPE_API_BASE: double.url } },
    );

    t.is(run.exitCode, 0, run.stderr);
    t.like(readJson(run), { usage: [{ account_id: id, events: 1 }] });
  },
);
