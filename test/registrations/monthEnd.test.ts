import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { eachKind, idIn, KIND_NAMES, registrationsIn } from "../api/contract.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import type { ApiResponse } from "../api/startStandaloneApi.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { unreachableTemporal } from "../support/temporalOnDemand.ts";

/* Two processes at a month's end in UTC: the clock of one is ahead, so that it is in July while the other is in June. */
const test = testWithDatabase();
const forBothKinds = eachKind(test);

const BEHIND = "2026-06-30T23:59:59.999Z";
const AHEAD = "2026-07-01T00:00:00.000Z";
const AFTER = "2026-07-01T00:00:02.000Z";

const startTwoApis = async (t: DatabaseTest, billingDay: number) => {
  const { db } = t.context;
  const openTemporal = unreachableTemporal;
  const clocks = { behind: createMovableClock(BEHIND), ahead: createMovableClock(AHEAD) };
  const organization = await createTestOrganization(db, { clock: clocks.behind, billingDay });
  return {
    clocks,
    id: organization.id,
    key: organization.apiKeyProd,
    behind: await startStandaloneApi(t, { db, clock: clocks.behind, openTemporal }),
    ahead: await startStandaloneApi(t, { db, clock: clocks.ahead, openTemporal }),
  };
};

const monthsRow = z.strictObject({ month: z.string(), total: z.int() });

/** Returns an account's totals by month, and the same counted from its records. */
const readMonths = async (db: DatabasePool, accountId: string) => ({
  totals: await db.any(sql.type(monthsRow)`
    SELECT period AS month, total::integer
    FROM impact_total
    WHERE account_id = ${accountId} AND period <> 'all'
    ORDER BY period
  `),
  records: await db.any(sql.type(monthsRow)`
    SELECT to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM') AS month, sum(count - refunded_count)::integer AS total
    FROM registration
    WHERE account_id = ${accountId}
    GROUP BY 1
    ORDER BY 1
  `),
});

forBothKinds(
  "on both sides of a month's end, units and their refunds count in the month of the registration",
  async (t, kind) => {
    const { path, refundPath, total, month } = KIND_NAMES[kind];
    const { db } = t.context;
    const { clocks, id: accountId, key, behind, ahead } = await startTwoApis(t, 15);

    const [july, june] = await Promise.all([
      ahead.call("POST", path, { key, body: { count: 5 } }),
      behind.call("POST", path, { key, body: { count: 3 } }),
    ]);
    t.is(july.body[month], 5);
    t.is(june.body[month], 3);
    t.is(registrationsIn(july.body, kind)[0]?.["created_at"], AHEAD);
    t.is(registrationsIn(june.body, kind)[0]?.["created_at"], BEHIND);
    for (const [api, body] of [
      [behind, { [total]: 8, [month]: 3 }],
      [ahead, { [total]: 8, [month]: 5 }],
    ] as const) {
      t.like((await api.call("GET", path, { key })).body, body);
    }
    const lastDay = `${path}?created_at=2026-06-30&end_at=2026-06-30`;
    const listed = async (api: typeof ahead) =>
      registrationsIn((await api.call("GET", lastDay, { key })).body, kind);
    t.deepEqual(await listed(ahead), await listed(behind));

    const refund = async ({ body }: ApiResponse, count: number) =>
      (await behind.call("POST", refundPath, { key, body: { id: idIn(body, kind), count } }))
        .status;
    t.is(await refund(july, 2), 200);
    t.is((await behind.call("GET", path, { key })).body[month], 3);
    clocks.behind.set(AFTER);
    t.is(await refund(june, 1), 200);

    t.like((await ahead.call("GET", path, { key })).body, { [total]: 5, [month]: 3 });
    const months = [
      { month: "2026-06", total: 2 },
      { month: "2026-07", total: 3 },
    ];
    t.deepEqual(await readMonths(db, accountId), { totals: months, records: months });
    const query = `kind=${kind}&interval=month&from=2026-06-01`;
    const stats = await ahead.call("GET", `/stats?${query}`, { key });
    t.like(stats.body["stats"], [
      { start: "2026-06-01", registered: 3, refunded: 1 },
      { start: "2026-07-01", registered: 5, refunded: 2 },
    ]);
    const facts = await db.any(sql.type(monthsRow)`
      SELECT to_char(to_timestamp(second) AT TIME ZONE 'UTC', 'YYYY-MM') AS month, sum(quantity)::integer AS total
      FROM usage_fact
      WHERE account_id = ${accountId}
      GROUP BY 1
      ORDER BY 1
    `);
    t.deepEqual(facts, months);
  },
);

forBothKinds(
  "on both sides of a billing period's end, a registration of the new period can be refunded, and one of the old by a process that is still in it",
  async (t, kind) => {
    const { path, refundPath } = KIND_NAMES[kind];
    const { key, behind, ahead } = await startTwoApis(t, 1);
    const register = async (api: typeof ahead) =>
      idIn((await api.call("POST", path, { key, body: { count: 5 } })).body, kind);
    const [july, june] = [await register(ahead), await register(behind)];
    const refund = (api: typeof ahead, id: string) =>
      api.call("POST", refundPath, { key, body: { id, count: 1 } });

    for (const refunded of [
      await refund(behind, july),
      await refund(ahead, july),
      await refund(behind, june),
    ]) {
      t.is(refunded.status, 200);
    }
    const refused = await refund(ahead, june);
    t.is(refused.status, 403);
    t.regex(String(refused.body["error"]), /outside the current billing cycle$/u);
    const periods = await Promise.all(
      [june, july].map(async (id) => (await behind.call("GET", `/usage/${id}`, { key })).body),
    );
    t.like(periods, [
      { period: { start: "2026-06-01T00:00:00.000Z", end: "2026-07-01T00:00:00.000Z" } },
      { period: { start: "2026-07-01T00:00:00.000Z", end: "2026-08-01T00:00:00.000Z" } },
    ]);
  },
);
