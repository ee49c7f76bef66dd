import { readDonationTotals } from "../../../modules/charities/donationTotals.sql.ts";
import { sql } from "../../../db/sql.ts";
import { deleteOldTestDonations } from "../../../modules/charities/deleteOldTestDonations.ts";
import { refundDonations } from "../../../modules/charities/refundDonations.ts";
import { testWithDatabase } from "../../support/database.ts";
import { openDeadlockPool, runBehindLocks } from "../../support/lockWaits.ts";
import { createMovableClock } from "../../support/movableClock.ts";
import { EIN, startDonationApi } from "./donationSetup.ts";

// Serial, because old donations of all accounts are deleted.
const test = testWithDatabase();

test.serial("old test donations leave with refunds and keys, and lower the totals", async (t) => {
  const { db } = t.context;
  const clock = createMovableClock("2025-03-10T12:00:00.000Z");
  const { call, accountId, test: key } = await startDonationApi(t, { clock });
  const donate = async (amountCents: number): Promise<string> => {
    const { body } = await call("POST", "/charities/donate", {
      key,
      body: {
        amount_cents: amountCents,
        ein: "530196605",
        idempotency_key: `donate ${amountCents}`,
      },
    });
    return String(body["donation_id"]);
  };
  const first = await donate(100);
  const refunded = await donate(200);
  const refundBody = { id: refunded, idempotency_key: "refund" };
  t.is((await call("POST", "/refund/donations", { key, body: refundBody })).status, 200);
  clock.set("2025-04-02T12:00:00.000Z");
  const recent = await donate(400);
  const owner = { accountId, mode: "test" } as const;
  t.like(await readDonationTotals(db, owner, clock.now()), {
    all: { count: 2, amountCents: 500 },
  });
  const signal = new AbortController().signal;

  const deleted = await deleteOldTestDonations(db, new Date("2025-04-01T00:00:00.000Z"), signal);

  t.is(deleted, 2);
  t.deepEqual(await readDonationTotals(db, owner, new Date("2025-03-10T12:00:00.000Z")), {
    all: { count: 1, amountCents: 400 },
    month: { count: 0, amountCents: 0 },
  });
  const list = await call("GET", "/charities/donations", { key });
  t.is(list.body["total_items"], 1);
  t.true(JSON.stringify(list.body).includes(recent));
  t.is((await call("POST", "/refund/donations", { key, body: { id: first } })).status, 404);
  t.not(await donate(100), first, "the idempotency key can be used again");
});

test.serial("deleting donations of several months does not deadlock with a refund", async (t) => {
  const clock = createMovableClock("2025-01-10T12:00:00.000Z");
  const { db, deadlocks } = await openDeadlockPool(t, t.context.databaseUrl);
  const { call, accountId, test: key } = await startDonationApi(t, { clock });
  const donateAt = async (time: string): Promise<string> => {
    clock.set(time);
    const body = { amount_cents: 100, ein: EIN };
    return String((await call("POST", "/charities/donate", { key, body })).body["donation_id"]);
  };
  await donateAt("2025-01-10T12:00:00.000Z");
  await donateAt("2025-02-10T12:00:00.000Z");
  const recent = await donateAt("2025-02-20T12:00:00.000Z");
  const owner = { accountId, mode: "test" } as const;
  const refund = { id: recent, reason: null, idempotencyKey: null, metadata: {} };

  // Both wait for February's total. The refund gets it first, and then needs the all-time total.
  const [, deleted] = await runBehindLocks<[unknown, number]>(
    db,
    (transaction) =>
      transaction.query(sql.typeAlias("void")`
        SELECT FROM donation_total WHERE account_id = ${accountId} AND period = '2025-02' FOR UPDATE
      `),
    () => refundDonations({ db, clock }, owner, [refund], true),
    () => deleteOldTestDonations(db, new Date("2025-02-15"), new AbortController().signal),
  );

  t.is(deleted, 2);
  t.deepEqual(deadlocks, []);
  t.like(await readDonationTotals(db, owner, clock.now()), {
    all: { count: 0, amountCents: 0 },
    month: { count: 0, amountCents: 0 },
  });
});
