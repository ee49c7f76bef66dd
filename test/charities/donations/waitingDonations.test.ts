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

test("donations and refunds of several accounts at the same time have totals and replays of their own", async (t) => {
  const { db } = t.context;
  const { call } = await startStandaloneApi(t, { db });
  const donors = await Promise.all(Array.from({ length: 5 }, () => createTestOrganization(db)));
  const numbers = [1, 2, 3, 4];
  const sendAll = (path: string, bodyOf: (key: string, number: number) => object) =>
    Promise.all(
      donors.map(({ apiKeyTest: key }) =>
        Promise.all(
          // Each donor uses the same keys, and the first one twice.
          [1, ...numbers].map(async (number) => {
            const body = { ...bodyOf(key, number), idempotency_key: `key ${number}` };
            return (await call("POST", path, { key, body })).body;
          }),
        ),
      ),
    );
  const ids = new Map<string, string>();

  const donated = await sendAll("/charities/donate", (_, number) => ({
    amount_cents: number,
    ein: EIN,
  }));
  for (const [index, bodies] of donated.entries()) {
    const [first, replay, ...rest] = bodies;
    t.is(first?.["donation_id"], replay?.["donation_id"]);
    // Either of the first two is the replay, which has the total of a later time.
    const totals = [Math.min(...[first, replay].map(totalOf)), ...rest.map(totalOf)];
    t.deepEqual(totals.toSorted(ascending), numbers);
    for (const body of bodies) {
      ids.set(
        `${donors[index]?.apiKeyTest} ${Number(body["amount_cents"])}`,
        String(body["donation_id"]),
      );
    }
  }
  t.is(new Set(ids.values()).size, 20);

  const refunded = await sendAll("/refund/donations", (key, number) => ({
    id: ids.get(`${key} ${number}`),
  }));
  for (const [first, replay, ...rest] of refunded) {
    t.is(first?.["refund_id"], replay?.["refund_id"]);
    const totals = [Math.max(...[first, replay].map(totalOf)), ...rest.map(totalOf)];
    t.deepEqual(totals.toSorted(ascending), [0, 1, 2, 3]);
  }
  for (const { id } of donors) {
    t.deepEqual(await readDonationLedger(db, id), { donations: 4, count: 0, cents: 0 });
  }
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
