import { readDonationTotals } from "../../../modules/charities/donationTotals.sql.ts";
import { deleteOldTestDonations } from "../../../modules/charities/deleteOldTestDonations.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createMovableClock } from "../../support/movableClock.ts";
import { startDonationApi } from "./donationSetup.ts";

// Serial, because old donations of all accounts are deleted.
const test = testWithDatabase();

test.serial("old test donations leave with refunds and keys, and lower the totals", async (t) => {
  const { db } = t.context;
  const clock = createMovableClock("2025-03-10T12:00:00.000Z");
  const api = await startDonationApi(t, { clock });
  const { call, refund, accountId, test: key } = api;
  const donate = async (amountCents: number): Promise<string> => {
    const body = { amount_cents: amountCents, idempotency_key: `donate ${amountCents}` };
    return String((await api.donate(body)).body["donation_id"]);
  };
  const first = await donate(100);
  const refunded = await donate(200);
  t.is((await refund({ id: refunded, idempotency_key: "refund" })).status, 200);
  clock.set("2025-04-02T12:00:00.000Z");
  const recent = await donate(400);
  const owner = { accountId, mode: "test" } as const;
  t.deepEqual(await readDonationTotals(db, owner), { count: 2, amountCents: 500 });
  const signal = new AbortController().signal;

  const deleted = await deleteOldTestDonations(db, new Date("2025-04-01T00:00:00.000Z"), signal);

  t.is(deleted, 2);
  t.deepEqual(await readDonationTotals(db, owner), { count: 1, amountCents: 400 });
  const list = await call("GET", "/charities/donations", { key });
  t.is(list.body["total_items"], 1);
  t.true(JSON.stringify(list.body).includes(recent));
  t.is((await refund({ id: first })).status, 404);
  t.not(await donate(100), first, "the idempotency key can be used again");
});
