import type { DatabasePool } from "slonik";
import { updateAccount } from "../../modules/accounts/accounts.sql.ts";
import { takePermit } from "../../db/rateLimits.ts";
import { sql } from "../../db/sql.ts";
import { systemClock } from "../../runtime/clock.ts";
import { createCharities } from "../../modules/charities/createCharities.ts";
import { validateCharity } from "../../modules/charities/confirmCharities.ts";
import { startApiOf, startStandaloneApi } from "../api/startStandaloneApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization, freshEin } from "../support/factories.ts";
import { addEveryOrgCharity, readDonationLedger, configOf } from "./donations/donationSetup.ts";
import { startProviderDouble } from "./startProviderDouble.ts";

const test = testWithDatabase();

test("of two hundred concurrent requests exactly twenty are permitted, after the clock was set back, too", async (t) => {
  const { db } = t.context;
  // A minute, so that the machine's speed does not matter.
  const limit = { requests: 20, windowMs: 60_000 };
  const countPermitted = async (): Promise<number> => {
    const permitted = Array.from({ length: 200 }, () => takePermit(db, "burst", limit));
    return (await Promise.all(permitted)).filter(Boolean).length;
  };
  t.is(await countPermitted(), 20);
  await shift(db, "burst", 3600);
  t.is(await countPermitted(), 20);
});

/** Moves the recorded times of a bucket, as if the database's clock had moved the other way. */
const shift = async (db: DatabasePool, bucket: string, bySeconds: number): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    UPDATE rate_limit
    SET permitted_at = array(
      SELECT permitted + ${bySeconds} * interval '1 second' FROM unnest(permitted_at) AS permitted ORDER BY permitted
    )
    WHERE bucket = ${bucket}
  `);
};

test("a rejected request is not counted", async (t) => {
  const { db } = t.context;
  const limit = { requests: 1, windowMs: 3_600_000 };
  t.true(await takePermit(db, "one", limit));
  await shift(db, "one", -1800);
  for (let request = 0; request < 10; request += 1) {
    t.false(await takePermit(db, "one", limit));
  }
  await shift(db, "one", -1801);
  t.true(await takePermit(db, "one", limit));
});

test("an account that has used its share of a charity provider gets a 503, and another account a 200", async (t) => {
  const { db } = t.context;
  const double = await startProviderDouble(t);
  const eins = Array.from({ length: 3 }, freshEin);
  for (const ein of eins) {
    addEveryOrgCharity(double, `charity-${ein}`, ein);
  }
  const { signal } = new AbortController();
  const [config, startTimeout] = [configOf(double), () => signal];
  const charities = createCharities({ db, clock: systemClock, config, startTimeout });
  const { call } = await startStandaloneApi(t, {
    db,
    charities,
    validateCharity: (_id, lookup) => validateCharity({ charities }, lookup, signal),
  });
  const [busy, other] = [await createTestOrganization(db), await createTestOrganization(db)];
  for (const { id } of [busy, other]) {
    await updateAccount(db, id, { charityProvider: "everyorg" });
  }
  const { find } = charities.named("everyorg", busy.id);
  const nonprofitIds = Array.from({ length: 130 }, (_, index) => `unknown-${index}`);
  const results = await Promise.allSettled(
    nonprofitIds.map((nonprofitId) => find({ ein: null, nonprofitId }, signal)),
  );
  t.is(results.filter(({ status }) => status === "rejected").length, 55);
  const callsBefore = double.calls.length;
  t.is(callsBefore, 75);
  const send = async (key: string) => [
    await call("GET", `/charities/search?ein=${eins[0]}`, { key }),
    await call("POST", "/charities/donate", { key, body: { amount_cents: 1, ein: eins[1] } }),
    await call("POST", "/charities/donate/batch?atomic=false", {
      key,
      body: { items: [{ amount_cents: 1, ein: eins[2] }] },
    }),
  ];

  const [search, single, batch] = await send(busy.apiKeyTest);
  const error = "too many details requests to the charity provider: an account may use 75 a minute";
  for (const response of [search, single]) {
    t.like(response, { status: 503, body: { error } });
    t.is(response?.headers.get("Retry-After"), "1");
  }
  t.like(batch, { status: 200, body: { failed: 1, results: [{ status: 503, body: { error } }] } });
  t.is(double.calls.length, callsBefore);
  t.is((await readDonationLedger(db, busy.id)).donations, 0);

  const served = await send(other.apiKeyTest);
  const statuses = served.map(({ status }) => status);
  t.deepEqual(statuses, [200, 200, 200]);
  t.is((await readDonationLedger(db, other.id)).donations, 2);
});

test("requests with an invalid key are rejected before the rate limit, and refunds have none", async (t) => {
  const { call, key } = await startApiOf(t, { rateWindowMs: 60_000 });

  const responses = await Promise.all(
    Array.from({ length: 25 }, () => call("GET", "/charities/search", { key: "wrong" })),
  );

  t.deepEqual([...new Set(responses.map(({ status }) => status))], [403]);
  const refunds = await Promise.all(
    Array.from({ length: 25 }, () => call("POST", "/refund/donations", { key, body: {} })),
  );
  t.true(refunds.every(({ status }) => status === 400));
});
