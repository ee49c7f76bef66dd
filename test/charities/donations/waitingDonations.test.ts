import { Client } from "pg";
import { MAXIMUM_CENTS } from "../../../modules/records/money.rules.ts";
import { startStandaloneApi } from "../../api/startStandaloneApi.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { eventually } from "../../support/programs.ts";
import { EIN, fillDonationTotal, readDonationLedger } from "./donationSetup.ts";

const test = testWithDatabase();

const ascending = (left: number, right: number): number => left - right;

const totalOf = (body: Readonly<Record<string, unknown>> | undefined): number =>
  Number(body?.["total_donations"]);

test("a donation beyond the total of its account rejects none of those that are recorded with it", async (t) => {
  const { db } = t.context;
  const { call } = await startStandaloneApi(t, { db });
  const [full, ...others] = await Promise.all(
    Array.from({ length: 8 }, () => createTestOrganization(db)),
  );
  await fillDonationTotal(db, full?.id ?? "");
  const donate = (key = "", cents = MAXIMUM_CENTS) =>
    call("POST", "/charities/donate", { key, body: { amount_cents: cents, ein: EIN } });

  // Only one of the first two fits, whichever is decided first: they have read the same total.
  const [half, otherHalf, ...responses] = await Promise.all([
    donate(full?.apiKeyTest, MAXIMUM_CENTS - 1),
    donate(full?.apiKeyTest, MAXIMUM_CENTS - 1),
    ...others.flatMap(({ apiKeyTest: key }) => [donate(key, 100), donate(key, 100), donate(key)]),
  ]);

  t.deepEqual([half.status, otherHalf.status].toSorted(ascending), [200, 400]);
  t.deepEqual([...new Set(responses.map(({ status }) => status))], [200]);
  for (const { id } of others) {
    const cents = MAXIMUM_CENTS + 200;
    t.deepEqual(await readDonationLedger(db, id), { donations: 3, count: 3, cents });
  }
});

test("donations of several accounts at the same time have totals and replays of their own", async (t) => {
  const { db } = t.context;
  const { call } = await startStandaloneApi(t, { db });
  const donors = await Promise.all(Array.from({ length: 5 }, () => createTestOrganization(db)));
  const ids = new Set<unknown>();
  await Promise.all(
    donors.map(async ({ id, apiKeyTest: key }) => {
      // Each donor uses the same keys, and the first one twice.
      const responses = await Promise.all(
        [1, 1, 2, 3, 4].map((number) => {
          const body = { amount_cents: number, ein: EIN, idempotency_key: `key ${number}` };
          return call("POST", "/charities/donate", { key, body });
        }),
      );
      const [first, replay, ...rest] = responses.map(({ body }) => body);
      t.is(first?.["donation_id"], replay?.["donation_id"]);
      // Either of the first two is the replay, which has the total of a later time.
      const totals = [Math.min(totalOf(first), totalOf(replay)), ...rest.map(totalOf)];
      t.deepEqual(totals.toSorted(ascending), [1, 2, 3, 4]);
      for (const { body } of responses) {
        ids.add(body["donation_id"]);
      }
      t.deepEqual(await readDonationLedger(db, id), { donations: 4, count: 4, cents: 10 });
    }),
  );
  t.is(ids.size, 20);
});

test("refunds of other accounts do not wait for a donation that is locked", async (t) => {
  const { db, databaseUrl } = t.context;
  const { call } = await startStandaloneApi(t, { db });
  const [{ apiKeyTest: key }, { apiKeyTest: otherKey }] = [
    await createTestOrganization(db),
    await createTestOrganization(db),
  ];
  const donate = async (owner: string): Promise<string> => {
    const body = { amount_cents: 100, ein: EIN };
    const response = await call("POST", "/charities/donate", { key: owner, body });
    return String(response.body["donation_id"]);
  };
  const refund = (owner: string, id: string) =>
    call("POST", "/refund/donations", { key: owner, body: { id } });
  const [id, next, otherId] = [await donate(key), await donate(key), await donate(otherKey)];
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  t.teardown(() => client.end());
  await client.query("BEGIN");
  await client.query("SELECT FROM donation WHERE id = $1 FOR UPDATE", [id]);

  const waiting = [refund(key, id), refund(key, next), refund(key, id)];
  await eventually(() => db.state().acquiredConnections > 0);
  t.is((await refund(otherKey, otherId)).status, 200);
  t.is((await refund(otherKey, "unknown")).status, 404);

  await client.query("COMMIT");
  const responses = await Promise.all(waiting);
  t.deepEqual(
    responses.map(({ status }) => status),
    [200, 200, 200],
  );
  const list = await call("GET", "/charities/donations", { key });
  t.is(JSON.stringify(list.body).match(/"refunded":true/gu)?.length, 2);
});
