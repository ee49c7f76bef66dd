import { z } from "zod";
import { sumLedgerUsage } from "../../../modules/billing/ledgerUsage.sql.ts";
import { listSealingsOfSecond } from "../../../modules/billing/meterEventReports.sql.ts";
import { findRegistration } from "../../../modules/registrations/registrations.sql.ts";
import { sql } from "../../../db/sql.ts";
import { SERVICE } from "../../../modules/accounts/audit.rules.ts";
import { systemClock } from "../../../runtime/clock.ts";
import { holdUsage, releaseUsage } from "../../../modules/billing/holdUsage.ts";
import { readUsage } from "../../../modules/billing/readUsage.ts";
import { testWithDatabase } from "../../support/database.ts";
import { listFolded, setUpFolding, START } from "./foldSetup.ts";
import type { FoldSetup } from "./foldSetup.ts";

const test = testWithDatabase();

/** Registers and reports a count in each of some seconds. */
const bill = async (scene: FoldSetup, counts: readonly number[]): Promise<readonly string[]> => {
  const ids: string[] = [];
  for (const count of counts) {
    ids.push(await scene.register(count));
    scene.pass(1);
  }
  await scene.drain();
  return ids;
};

test.serial(
  "statements, reconciliations and usage reports are the same before and after usage is folded",
  async (t) => {
    const scene = await setUpFolding(t);
    const [first = "", second = ""] = await bill(
      scene,
      [
        5, 7, 11, 13, 17, 19, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        1, 1, 23,
      ],
    );
    await scene.refund(first, 2);
    await scene.refund(second);
    await scene.drain();
    await scene.register(100, { kind: "bottle" });
    await scene.register(1_000_000_000_000_001, { kind: "bottle" });
    await scene.drain({ kind: "bottle" });
    const before = await scene.read();
    const planned = await scene.fold({ isDryRun: true });
    t.deepEqual(await scene.counts(), { facts: 37, events: 37 }, "a dry run changes nothing");
    const folded = await scene.fold();
    t.deepEqual(folded, planned);
    t.deepEqual(
      folded.map(({ kind, facts, events, units, kept }) => ({
        kind,
        facts,
        events,
        units,
        kept,
      })),
      [
        { kind: "tree", facts: 34, events: 34, units: 111n, kept: 0 },
        { kind: "bottle", facts: 3, events: 3, units: 1_000_000_000_000_101n, kept: 0 },
      ],
    );
    t.deepEqual(await scene.counts(), { facts: 0, events: 0 });
    t.deepEqual(await scene.read(), before);
    const rows = await listFolded(scene);
    t.is(rows.length, 3, "an hour of bottles, and two of trees");
    const tree = rows.find(({ registered }) => registered === 72 + 24);
    t.like(tree, { refunded: 9, lastSequence: 2 });
  },
);

test.serial("folding twice folds nothing more", async (t) => {
  const scene = await setUpFolding(t);
  await bill(scene, [3, 4]);
  await scene.fold();
  const rows = await listFolded(scene);
  t.deepEqual(await scene.fold(), []);
  t.deepEqual(await listFolded(scene), rows);
});

test.serial("a folded registration shows as reported, and where its units are", async (t) => {
  const scene = await setUpFolding(t);
  const [id = ""] = await bill(scene, [3]);
  await scene.fold();
  const registration = await findRegistration(scene.db, id);
  t.assert(registration);
  const usage = registration && (await readUsage(scene.db, registration));
  t.like(usage, {
    status: "reported",
    facts: [],
    folded: { processor: "ledger", customerId: null, hour: START - (START % 3600) },
  });
});

test.serial(
  "a refund after folding sends its units once, under an identifier that was never used, and can be folded later",
  async (t) => {
    const scene = await setUpFolding(t);
    const [id = ""] = await bill(scene, [8]);
    await scene.refund(id, 1);
    await scene.drain();
    await scene.fold();
    await scene.refund(id, 3);
    t.deepEqual(await scene.counts(), { facts: 1, events: 0 });
    const before = await scene.read();
    t.is((await scene.fold())[0]?.facts, undefined, "an unsealed fact is not folded");
    t.deepEqual(await scene.read(), before);
    await scene.drain();
    await scene.drain();
    const stream = { accountId: scene.accountId, mode: "live", kind: "tree" } as const;
    const sealings = await listSealingsOfSecond(scene.db, stream, START);
    t.deepEqual(
      sealings.map(({ identifier, quantity, state }) => ({ identifier, quantity, state })),
      [
        {
          identifier: `u1:${scene.accountId}:live:tree:${START}:3`,
          quantity: -3,
          state: "delivered",
        },
      ],
    );
    const whole = { start: 0, end: START + 86_400 };
    t.is(await sumLedgerUsage(scene.db, stream, whole), 4);
    const delivered = await scene.read();
    await scene.fold();
    t.deepEqual(await scene.counts(), { facts: 0, events: 0 });
    t.deepEqual(await scene.read(), delivered);
    t.deepEqual(await listFolded(scene), [
      {
        hour: START - (START % 3600),
        registered: 8,
        refunded: 4,
        seconds: [START % 3600],
        lastSequence: 3,
      },
    ]);
    await t.throwsAsync(scene.refund(id, 5), { message: /only 4 can still be refunded/u });
  },
);

test.serial(
  "an imported registration of a folded second has no usage, so it cannot be refunded",
  async (t) => {
    const scene = await setUpFolding(t);
    await bill(scene, [8]);
    await scene.fold();
    for (const importedId of ["old-1", null]) {
      const id = crypto.randomUUID();
      await scene.db.query(sql.typeAlias("void")`
        INSERT INTO registration (id, account_id, mode, kind, count, created_at, imported_id)
        VALUES (${id}, ${scene.accountId}, 'live', 'tree', 1, to_timestamp(${START}::bigint), ${importedId})
      `);
      await t.throwsAsync(scene.refund(id, 1), { message: /no usage record on file/u });
      const registration = await findRegistration(scene.db, id);
      t.is(registration && (await readUsage(scene.db, registration)).status, "imported");
    }
  },
);

test.serial("whatever is not plainly delivered stays, with all usage of its second", async (t) => {
  const scene = await setUpFolding(t);
  const { db, accountId } = scene;
  const ids = await bill(scene, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
  const change = async (place: number, columns: Readonly<Record<string, string>>) => {
    for (const [name, value] of Object.entries(columns)) {
      await db.query(sql.typeAlias("void")`
        UPDATE meter_event
        SET ${sql.identifier([name])} = ${sql.fragment`${value}`}
        WHERE account_id = ${accountId} AND second = ${START + place}
      `);
    }
  };
  await change(0, { state: "rejected" });
  await change(1, { state: "waived" });
  await change(2, { last_error: "delivered after its billing period ended" });
  await db.query(sql.typeAlias("void")`
    UPDATE meter_event
    SET settlement_kind = 'invoice_item', settlement_reference = 'ii_1'
    WHERE account_id = ${accountId} AND second = ${START + 3}
  `);
  // Delivered less than 36 days ago.
  await db.query(sql.typeAlias("void")`
    UPDATE meter_event SET settled_at = '2026-04-20' WHERE account_id = ${accountId} AND second = ${START + 4}
  `);
  await db.query(sql.typeAlias("void")`
    INSERT INTO usage_correction
      (account_id, mode, kind, second, quantity, processor, customer_id, restored_at, reason, corrected_by, corrected_at)
    VALUES (${accountId}, 'live', 'tree', ${START + 5}, 1, 'ledger', 'c', now(), 'r', 'o', now())
  `);
  // Its workflow has not been started.
  await scene.refund(ids[6] ?? "", 1);
  await scene.drain();
  await db.query(sql.typeAlias("void")`
    UPDATE refund SET dispatched_at = NULL WHERE registration_id = ${ids[6] ?? ""}
  `);
  // A fact that is not sealed.
  await scene.refund(ids[7] ?? "", 1);
  await db.query(sql.typeAlias("void")`
    UPDATE usage_fact SET already_reported = 1 WHERE account_id = ${accountId} AND second = ${START + 8}
  `);
  await db.query(sql.typeAlias("void")`
    UPDATE meter_event SET quantity = 9 WHERE account_id = ${accountId} AND second = ${START + 9}
  `);
  // Each of two billed a part of the second.
  await scene.refund(ids[10] ?? "", 1);
  await db.query(sql.typeAlias("void")`
    UPDATE usage_fact SET meter_event_id = NULL WHERE account_id = ${accountId} AND second = ${START + 7}
  `);
  await scene.drain();
  await db.query(sql.typeAlias("void")`
    UPDATE meter_event SET customer_id = 'cus_other'
    WHERE account_id = ${accountId} AND second = ${START + 10} AND sequence = 2
  `);
  await db.query(sql.typeAlias("void")`
    UPDATE usage_fact SET meter_event_id = NULL
    WHERE refund_id IN (SELECT id FROM refund WHERE registration_id = ${ids[7] ?? ""})
  `);
  const [folded] = await scene.fold();
  t.like(folded, { facts: 1, events: 1, units: 12n });
  t.deepEqual(await listFolded(scene), [
    {
      hour: START - (START % 3600),
      registered: 12,
      refunded: 0,
      seconds: [(START % 3600) + 11],
      lastSequence: 1,
    },
  ]);
});

test.serial("test mode, later usage and other organizations are not folded", async (t) => {
  const scene = await setUpFolding(t);
  await bill(scene, [3]);
  await scene.register(4, { mode: "test" });
  await scene.drain({ mode: "test" });
  const other = await setUpFolding(t);
  await bill(other, [5]);
  scene.pass(50 * 86_400);
  await bill(scene, [6]);
  const beforeMarch = new Date(Date.UTC(2026, 1, 20));
  await scene.fold({ before: beforeMarch });
  t.deepEqual(await scene.counts(), { facts: 2, events: 2 });
  t.deepEqual(await other.counts(), { facts: 1, events: 1 });
  const [entry] = await scene.db.any(sql.type(
    z.strictObject({ action: z.string(), details: z.looseObject({}) }),
  )`
    SELECT action, details FROM audit_entry WHERE account_id = ${scene.accountId} AND action = 'usage.fold'
  `);
  t.deepEqual(entry?.details, { before: beforeMarch.toISOString() });
});

test.serial(
  "usage is not folded while it is young, held, or its billing period is recent",
  async (t) => {
    const scene = await setUpFolding(t);
    await bill(scene, [3]);
    await t.throwsAsync(scene.fold({ before: new Date(Date.UTC(2026, 3, 20)) }), {
      message: /--before must be 2026-04-14T00:00:00\.000Z or earlier/u,
    });
    await scene.db.query(sql.typeAlias("void")`
    INSERT INTO billing_period (account_id, kind, subscription_id, starts_at, ends_at, read_at)
    VALUES (${scene.accountId}, 'tree', 'sub_1', '2026-01-10', '2027-01-10', now())
  `);
    const [kept] = await scene.fold();
    t.deepEqual([kept?.until.toISOString(), kept?.facts], ["2026-01-10T00:00:00.000Z", 0]);
    await scene.db.query(sql.typeAlias("void")`
    UPDATE billing_period SET starts_at = '2026-02-01' WHERE account_id = ${scene.accountId}
  `);
    const deps = { db: scene.db, clock: systemClock, actor: SERVICE };
    await holdUsage(deps, { reason: "restore", by: "operator" });
    await t.throwsAsync(scene.fold(), { message: /usage is held by operator: restore/u });
    await releaseUsage(deps, "operator");
    t.is((await scene.fold())[0]?.facts, 1);
  },
);

test("while usage is registered, refunded, reported and reconciled, folding it loses and doubles nothing", async (t) => {
  const scene = await setUpFolding(t);
  const ids: string[] = [];
  const expected = { units: 0 };
  for (let second = 0; second < 12; second += 1) {
    for (let each = 0; each < 4; each += 1) {
      ids.push(await scene.register(10));
      expected.units += 10;
    }
    scene.pass(1);
  }
  await scene.drain();
  const errors: unknown[] = [];
  const attempt = async (run: () => Promise<unknown>): Promise<void> => {
    await run().catch((error: unknown) => errors.push(error));
  };
  const running = { on: true };
  const folding = (async () => {
    while (running.on) {
      await attempt(() => scene.fold());
    }
  })();
  const reading = (async () => {
    while (running.on) {
      await attempt(() => scene.read());
    }
  })();
  for (let round = 0; round < 3; round += 1) {
    await Promise.all([
      ...ids.map((id) => attempt(() => scene.refund(id, 1))),
      attempt(() => scene.drain()),
    ]);
    expected.units -= ids.length;
  }
  await scene.drain();
  running.on = false;
  await Promise.all([folding, reading]);
  t.deepEqual(errors, []);
  const stream = { accountId: scene.accountId, mode: "live", kind: "tree" } as const;
  t.is(await sumLedgerUsage(scene.db, stream, { start: 0, end: START * 2 }), expected.units);
  const before = await scene.read();
  await scene.fold();
  t.deepEqual(await scene.counts(), { facts: 0, events: 0 });
  t.deepEqual(await scene.read(), before);
  const [row] = await listFolded(scene);
  t.is((row?.registered ?? 0) - (row?.refunded ?? 0), expected.units);
});
