import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { deleteOldData } from "../../../modules/support/deleteOldData.ts";
import { readJson, impactOf } from "../../cli/runImpact.ts";
import { createMovableClock } from "../../support/movableClock.ts";
import { testWithDatabase } from "../../support/database.ts";
import { startStoreApiOf } from "../startStoreApi.ts";
import { createPerson, dumpDatabase, holds, leaveTraces } from "./traces.ts";

const test = testWithDatabase().serial;

for (const option of ["--customer-id", "--customer-email"] as const) {
  test(`after store forget ${option}, nothing in the database names the customer, and replays bill nothing`, async (t) => {
    const { databaseUrl } = t.context;
    const impact = impactOf(t);
    const { store, state, ...api } = await startStoreApiOf(t, { store: { balanceCents: 10_000 } });
    const [person, other] = [createPerson(), createPerson()];
    const { plant, key, planted } = await leaveTraces(api, store, person);
    await leaveTraces(api, store, other);
    t.is(holds(await dumpDatabase(databaseUrl), person).length, 3);
    const before = await state();
    const value = option === "--customer-id" ? person.id : person.email;
    const forget = ["store", "forget", store.domain, option, value, "--json"];

    const done = await impact(...forget, "--as", "Ada");
    const again = await impact(...forget, "--as", "Ada");

    t.is(done.exitCode, 0, done.stderr);
    t.like(readJson(done), { registrations: 4, donations: 1 });
    t.like(readJson(again), { registrations: 0, donations: 0 });
    const dump = await dumpDatabase(databaseUrl);
    t.deepEqual(holds(dump, person), []);
    t.is(holds(dump, other).length, 3);
    t.deepEqual(await state(), before);
    const replayed = await api.post("/app/api/plant", { ...store.live, ...key }, plant);
    t.like(replayed, { status: 200, replayed: "true", text: planted.text });
    t.deepEqual(await state(), before);
    const list = `audit list --org ${store.id} --action store.forget --json`;
    const listed = await impact(...list.split(" "));
    t.like(readJson(listed), [{ operator: "Ada" }, { operator: "Ada" }]);
  });
}

test("store forget --order-id erases the records of an order only", async (t) => {
  const { post, get, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  const customer = { trees: 1, customer_name: "Ann Lee", customer_id: "7" };
  await post("/app/api/plant", store.live, { ...customer, order_id: "#1001" });
  await post("/app/api/plant", store.live, { ...customer, order_id: "#1002" });

  const run = await impactOf(t)("store", "forget", store.domain, "--order-id", "1001");

  t.regex(run.stderr, /Erased the personal data of 1 registration and 0 donations of /u);
  t.like((await get("/app/api/plant", store.live)).body, {
    trees: [
      { customer_name: "Ann Lee", order_id: "#1002" },
      { customer_name: "", customer_id: "", order_id: "" },
    ],
  });
});

test("a reason that was given for several customers is erased with any", async (t) => {
  const { post, store } = await startStoreApiOf(t, { store: { balanceCents: 10_000 } });
  const [ann, bob] = [createPerson(), createPerson()];
  const donation = { charity_id: "53-0196605", amount_dollars: 1 };
  for (const { id } of [ann, bob]) {
    await post("/app/api/plant", store.live, { trees: 1, customer_id: id });
    await post("/app/api/charity/donate", store.live, { ...donation, customer_id: id });
  }
  await post("/app/api/plant", store.live, { trees: 1, customer_id: bob.id });
  const reverse = async (type: string, quantity: number, reason: string): Promise<void> => {
    const reversal = { type, quantity, reason, customer_id: quantity === 1 ? bob.id : undefined };
    t.is((await post("/app/api/refund", store.live, reversal)).status, 200);
  };
  await reverse("tree", 1, `${bob.name} cancelled`);
  await reverse("tree", 2, `${ann.name} cancelled`);
  await reverse("donation", 2, `${ann.name} cancelled`);

  await impactOf(t)("store", "forget", store.domain, "--customer-id", ann.id);

  const dump = await dumpDatabase(t.context.databaseUrl);
  t.deepEqual(holds(dump, ann), []);
  t.true(dump.includes(`${bob.name} cancelled`));
});

test("store export-customer prints all that is stored, and is audited", async (t) => {
  const impact = impactOf(t);
  const { store, ...api } = await startStoreApiOf(t, { store: { balanceCents: 10_000 } });
  const person = createPerson();
  await leaveTraces(api, store, person);

  const args = ["store", "export-customer", store.domain, "--customer-email", person.email];
  const run = await impact(...args, "--as", "Ada");

  const exported = z
    .looseObject({
      registrations: z.array(z.looseObject({})),
      donations: z.array(z.looseObject({})),
    })
    .parse(readJson(run));
  t.is(exported.registrations.length, 4);
  const refund = { refunded: true, refund_reasons: [`asked by ${person.email}`] };
  t.like(exported.donations, [{ amount_cents: 100, ...refund }]);
  t.regex(String(exported.donations[0]?.["refunded_at"]), /^\d{4}-/u);
  t.true(run.stdout.includes(`for ${person.name}`));
  t.true(run.stdout.includes(`${person.name} wrote from`));
  const nobody = await impact("store", "export-customer", store.domain);
  t.is(nobody.exitCode, 2);
  const listed = await impact("audit", "list", "--action", "store.export_customer", "--json");
  t.deepEqual(holds(listed.stdout, person), []);
  t.like(readJson(listed), [{ operator: "Ada", account_id: store.id }]);
});

test("store forget --all-customers erases every customer, also page by page", async (t) => {
  const { db, databaseUrl } = t.context;
  const { store, ...api } = await startStoreApiOf(t, { store: { balanceCents: 10_000 } });
  const people = [createPerson(), createPerson()];
  for (const person of people) {
    await leaveTraces(api, store, person);
  }
  await db.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at, notes, unit_price_cents)
    SELECT gen_random_uuid(), ${store.id}, 'test', 'bottle', 1, now() - number * interval '1 second', 'a note', 0
    FROM generate_series(1, 1200) AS number
  `);

  const forgetAll = ["store", "forget", store.domain, "--all-customers", "--json"];
  const impact = impactOf(t);
  t.regex(await impact.fails(2, ...forgetAll), /all customers of .* cannot be undone.* --yes/u);
  t.not(holds(await dumpDatabase(databaseUrl), people[0] ?? createPerson()).length, 0);

  const run = await impact(...forgetAll, "--yes");

  t.like(readJson(run), { registrations: 1208, donations: 2 });
  const dump = await dumpDatabase(databaseUrl);
  const traces = people.flatMap((person) => holds(dump, person));
  t.deepEqual(traces, []);
  t.false(dump.includes("a note"));
});

test("stored responses are replayed byte for byte, years later", async (t) => {
  const clock = createMovableClock("2026-01-10T12:00:00.000Z");
  const { db, post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 }, clock });
  const key = { "Idempotency-Key": "order-1" };
  const order = { trees: 2, customer_name: "Ann Lee" };
  const first = await post("/app/api/plant", { ...store.live, ...key }, order);
  // What an earlier release responded.
  const body = first.text.replace("Ann Lee", "Ann  Lee");
  await db.query(sql.typeAlias("void")`
    UPDATE idempotency_key SET response_body = ${body} WHERE account_id = ${store.id}
  `);

  clock.set("2036-01-10T12:00:00.000Z");
  await deleteOldData({ db, clock }, new AbortController().signal);

  const replayed = await post("/app/api/plant", { ...store.live, ...key }, order);
  t.like(replayed, { text: body, replayed: "true" });
});
