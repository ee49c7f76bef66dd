import type { ExecutionContext } from "ava";
import { Client } from "pg";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import type { Mode } from "../../modules/records/owner.rules.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import { drainUsage } from "../billing/drainUsage.ts";
import { deleteOldTestRegistrations } from "../../modules/registrations/deleteOldTestRegistrations.ts";
import { refundRegistration } from "../../modules/registrations/refundRegistration.ts";
import { setUpPlanting } from "../planting/setUpPlanting.ts";
import { readAccountSums } from "../support/accountSums.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { STAGE_MS } from "../support/planting.ts";

const test = testWithDatabase();

const NEVER = new AbortController().signal;
const DAY_MS = 86_400_000;

const setUp = async (t: ExecutionContext<DatabaseContext>) => {
  const { db } = t.context;
  const setup = await setUpPlanting(db, { start: "2026-03-30T10:00:00.000Z" });
  const { clock, organization } = setup;
  const accountId = organization.id;
  const billing = createBilling({ db, stripe: null });
  const deps = { db, clock, billing };
  const drain = async (mode: Mode): Promise<void> => {
    await drainUsage(deps, { accountId, mode, kind: "tree" });
  };
  const move = (durationMs: number): void => {
    clock.set(new Date(clock.now().getTime() + durationMs).toISOString());
  };
  const count = (table: string, mode: Mode): Promise<number> =>
    db.oneFirst(sql.type(z.strictObject({ rows: z.int() }))`
      SELECT count(*)::integer AS rows
      FROM ${sql.identifier([table])}
      WHERE account_id = ${accountId} AND mode = ${mode}
    `);
  /** Rows by table, and the sums that must agree with them. */
  const read = async (mode: Mode) => ({
    registrations: await count("registration", mode),
    facts: await count("usage_fact", mode),
    events: await count("meter_event", mode),
    orders: await count("planting_order", mode),
    total: await db.oneFirst(sql.type(z.strictObject({ total: z.int() }))`
      SELECT coalesce(sum(total), 0)::integer AS total
      FROM impact_total
      WHERE account_id = ${accountId} AND mode = ${mode} AND period = 'all'
    `),
    months: await db.oneFirst(sql.type(z.strictObject({ total: z.int() }))`
      SELECT coalesce(sum(total), 0)::integer AS total
      FROM impact_total
      WHERE account_id = ${accountId} AND mode = ${mode} AND period <> 'all'
    `),
    planted: await db.oneFirst(sql.type(z.strictObject({ planted: z.int() }))`
      SELECT coalesce(sum(planted), 0)::integer AS planted
      FROM planting_tally
      WHERE account_id = ${accountId} AND mode = ${mode}
    `),
  });
  return {
    ...setup,
    accountId,
    db,
    move,
    read,
    drain,
    refund: async (id: string, units: number, mode: Mode = "test"): Promise<void> => {
      await refundRegistration(
        deps,
        { accountId, mode, kind: "tree" },
        { id, count: units, reason: null, idempotencyKey: crypto.randomUUID() },
      );
    },
    /** Marks the workflows of all refunds as started. */
    dispatchRefunds: async (): Promise<void> => {
      await db.query(sql.typeAlias("void")`
        UPDATE refund SET dispatched_at = created_at
      `);
    },
    deleteBefore: (before: Date, batchSize?: number, signal = NEVER) =>
      deleteOldTestRegistrations(db, before, signal, batchSize),
  };
};

test.serial(
  "old test registrations leave with their refunds, usage and planting orders, and all sums agree",
  async (t) => {
    const { read, register, refund, dispatchRefunds, drain, move, deleteBefore, ...setup } =
      await setUp(t);
    const { accountId, db, clock, createOrders, place, pass } = setup;
    for (const mode of ["test", "live"] as const) {
      const first = await register(5, { mode });
      // The same second as the first one.
      await register(2, { mode });
      await refund(first, 1, mode);
    }
    move(2 * DAY_MS);
    await register(4, { mode: "test" });
    const inOldOrder = await register(6, { mode: "test" });
    move(10_000);
    await drain("test");
    await drain("live");
    await createOrders();
    await place();
    await pass(STAGE_MS);
    await pass(STAGE_MS);
    await pass(STAGE_MS);
    move(DAY_MS);
    await register(8, { mode: "test" });
    await refund(inOldOrder, 2);
    await dispatchRefunds();
    move(10_000);
    await drain("test");
    const live = await read("live");
    const before = await read("test");
    t.like(before, { registrations: 5, total: 22, months: 22, planted: 14, orders: 1 });
    t.true(before.events > 0);

    // In batches of one, so that a month and a second are divided wherever they may be.
    const untilSecondDay = new Date(Date.UTC(2026, 2, 31));
    const first = await deleteBefore(untilSecondDay, 1);

    t.deepEqual(first, { registrations: 2, plantingOrders: 0 });
    const middle = await read("test");
    t.like(middle, { registrations: 3, total: 16, months: 16, planted: 8, orders: 1 });

    const second = await deleteBefore(new Date(Date.UTC(2026, 3, 2)), 1);

    t.deepEqual(second, { registrations: 2, plantingOrders: 1 });
    t.deepEqual(await read("test"), {
      registrations: 1,
      facts: 1,
      events: 1,
      orders: 0,
      total: 8,
      months: 8,
      planted: 0,
    });
    t.deepEqual(await read("live"), live);
    const sums = await readAccountSums(db, accountId);
    t.is(sums.usage, sums.registered - sums.refunded);
    t.is(sums.total, sums.registered - sums.refunded);
    t.deepEqual(await deleteBefore(new Date(Date.UTC(2026, 3, 2))), {
      registrations: 0,
      plantingOrders: 0,
    });
    t.true(clock.now() > untilSecondDay);
  },
);

test.serial(
  "registrations whose usage or refund is not settled stay, and leave once it is",
  async (t) => {
    const { read, register, refund, dispatchRefunds, drain, move, deleteBefore, ...setup } =
      await setUp(t);
    const { clock } = setup;
    await register(5, { mode: "test" });
    const locked = await register(1, { mode: "test" });
    move(DAY_MS);

    t.is((await deleteBefore(clock.now())).registrations, 0, "not sent");
    await drain("test");
    const other = new Client({ connectionString: t.context.databaseUrl });
    await other.connect();
    t.teardown(() => other.end());
    await other.query("BEGIN");
    await other.query("SELECT FROM registration WHERE id = $1 FOR UPDATE", [locked]);
    t.is((await deleteBefore(clock.now())).registrations, 0, "another transaction has locked one");
    await other.query("ROLLBACK");
    await refund(locked, 1);
    await drain("test");
    t.is((await deleteBefore(clock.now())).registrations, 0, "the refund has no workflow yet");
    t.is((await read("test")).registrations, 2);

    await dispatchRefunds();
    t.is((await deleteBefore(clock.now())).registrations, 2);
    t.like(await read("test"), { registrations: 0, facts: 0, events: 0, total: 0 });
  },
);

test.serial(
  "a deletion that is interrupted leaves whole seconds and goes on the next time",
  async (t) => {
    const { read, register, drain, move, deleteBefore, clock } = await setUp(t);
    for (let day = 0; day < 3; day += 1) {
      await register(1, { mode: "test" });
      move(DAY_MS);
    }
    await drain("test");
    const interrupted = new AbortController();
    interrupted.abort();

    await t.throwsAsync(deleteBefore(clock.now(), 1, interrupted.signal));
    t.is((await read("test")).registrations, 3);

    t.is((await deleteBefore(clock.now(), 1)).registrations, 3);
  },
);
