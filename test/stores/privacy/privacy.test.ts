import type { ExecutionContext } from "ava";
import { Client } from "pg";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { deleteOldData } from "../../../modules/support/deleteOldData.ts";
import { readJson, impactOf, runImpact } from "../../cli/runImpact.ts";
import { createMovableClock } from "../../support/movableClock.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createTestStore, rowsIn, startStoreApi, startStoreApiOf } from "../startStoreApi.ts";
import type { StoreApi, TestStore } from "../startStoreApi.ts";
import { readStoreState } from "../storeState.ts";
import { DAY_MS } from "../../../runtime/durations.rules.ts";
import { signPlatformRequest } from "../../../api/http/signatures.ts";

const test = testWithDatabase();

const SECRET = "o".repeat(32);
const SECRETS = [SECRET, "n".repeat(32)] as const;

/** Sends a privacy request as the platform does, signed with a secret if there is one. */
const sendPlatformRequest = async (
  { url }: Pick<StoreApi, "url">,
  topic: string,
  request: object,
  secret: string | null,
): Promise<{ readonly status: number; readonly body: unknown }> => {
  const body = JSON.stringify(request);
  const response = await fetch(`${url}/webhooks/privacy`, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      "X-Shopify-Topic": topic,
      ...(secret === null ? {} : { "X-Shopify-Hmac-Sha256": signPlatformRequest(secret, body) }),
    },
    body,
  });
  return { status: response.status, body: await response.json() };
};

/** Returns every row of every table as text. */
const dumpDatabase = async (databaseUrl: string): Promise<string> => {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const tables = await client.query<{ name: string }>(
      "SELECT quote_ident(tablename) AS name FROM pg_tables WHERE schemaname = 'public'",
    );
    const rows: string[] = [];
    for (const { name } of tables.rows) {
      const dumped = await client.query<{ row: string }>(
        `SELECT ${name}::text AS row FROM ${name}`,
      );
      rows.push(...dumped.rows.map(({ row }) => `${name}: ${row}`));
    }
    return rows.join("\n");
  } finally {
    await client.end();
  }
};

/** A customer whose name, address and ids occur nowhere else. */
const createPerson = () => {
  const tag = crypto.randomUUID().slice(0, 8);
  const number = String(BigInt(`0x${tag}`) + 7_000_000_000n);
  return {
    name: `Ann Lee-${tag}`,
    email: `Ann.${tag}@Example.com`,
    id: number,
    order: `#O${tag}`,
    tag,
  };
};
type Person = ReturnType<typeof createPerson>;

/** Leaves the customer's traces wherever a store's records can have them. */
const leaveTraces = async ({ post }: Pick<StoreApi, "post">, store: TestStore, person: Person) => {
  const customer = {
    customer_name: person.name,
    customer_email: person.email,
    customer_id: person.id,
  };
  const plant = { trees: 3, ...customer, order_id: person.order, notes: `for ${person.name}` };
  const key = { "Idempotency-Key": `plant for ${person.email}` };
  const planted = await post("/app/api/plant", { ...store.live, ...key }, plant);
  await post("/app/api/plant", store.live, { trees: 1, customer_id: person.id });
  await post("/app/api/plant", store.test, {
    trees: 2,
    customer_email: person.email.toLowerCase(),
  });
  await post("/app/api/plastic", store.live, { bottles: 5, customer_name: person.name });
  const donation = { charity_id: "53-0196605", amount_dollars: 1, ...customer };
  await post("/app/api/charity/donate", store.live, donation);
  await post("/app/api/refund", store.live, {
    type: "tree",
    quantity: 1,
    customer_id: person.id,
    reason: `${person.name} wrote from ${person.email}`,
  });
  await post("/app/api/refund", store.live, {
    type: "donation",
    quantity: 1,
    customer_id: person.id,
    reason: `asked by ${person.email}`,
  });
  return { plant, key, planted };
};

const holds = (dump: string, { name, email, id }: Person): readonly string[] =>
  [name, email, id].filter((text) => dump.toLowerCase().includes(text.toLowerCase()));

for (const option of ["--customer-id", "--customer-email"] as const) {
  test.serial(
    `after store forget ${option}, nothing in the database names the customer, and replays bill nothing`,
    async (t) => {
      const { db, databaseUrl } = t.context;
      const impact = impactOf(t);
      const api = await startStoreApi(t, t.context);
      const store = await createTestStore(db, { balanceCents: 10_000 });
      const [person, other] = [createPerson(), createPerson()];
      const { plant, key, planted } = await leaveTraces(api, store, person);
      await leaveTraces(api, store, other);
      t.is(holds(await dumpDatabase(databaseUrl), person).length, 3);
      const before = await readStoreState(db, store.id);
      const value = option === "--customer-id" ? person.id : person.email;
      const forget = ["store", "forget", store.domain, option, value, "--json"];

      const planned = await impact(...forget, "--dry-run");
      t.is(holds(await dumpDatabase(databaseUrl), person).length, 3);
      const done = await impact(...forget, "--as", "Ada");
      const again = await impact(...forget, "--as", "Ada");

      t.is(done.exitCode, 0, done.stderr);
      t.like(readJson(planned), { registrations: 4, donations: 1, dry_run: true });
      t.like(readJson(done), { registrations: 4, donations: 1, dry_run: false });
      t.like(readJson(again), { registrations: 0, donations: 0 });
      const dump = await dumpDatabase(databaseUrl);
      t.deepEqual(holds(dump, person), []);
      t.is(holds(dump, other).length, 3);
      t.deepEqual(await readStoreState(db, store.id), before);
      const replayed = await api.post("/app/api/plant", { ...store.live, ...key }, plant);
      t.is(replayed.status, 200);
      t.is(replayed.headers.get("Idempotent-Replayed"), "true");
      t.is(replayed.text, planted.text);
      t.deepEqual(await readStoreState(db, store.id), before);
      const listed = await impact(
        "audit",
        "list",
        "--org",
        store.id,
        "--action",
        "store.forget",
        "--json",
      );
      t.like(readJson(listed), [{ operator: "Ada" }, { operator: "Ada" }]);
    },
  );
}

test.serial("store forget --order-id erases the records of an order only", async (t) => {
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

test.serial("a reason that was given for several customers is erased with any", async (t) => {
  const { databaseUrl } = t.context;
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

  await runImpact(["store", "forget", store.domain, "--customer-id", ann.id], {
    env: { DATABASE_URL: databaseUrl },
  });

  const dump = await dumpDatabase(databaseUrl);
  t.deepEqual(holds(dump, ann), []);
  t.true(dump.includes(`${bob.name} cancelled`));
});

test.serial("store export-customer prints all that is stored, and is audited", async (t) => {
  const { db } = t.context;
  const impact = impactOf(t);
  const api = await startStoreApi(t, t.context);
  const store = await createTestStore(db, { balanceCents: 10_000 });
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

test.serial("store forget --all-customers erases every customer, also page by page", async (t) => {
  const { db, databaseUrl } = t.context;
  const api = await startStoreApi(t, t.context);
  const store = await createTestStore(db, { balanceCents: 10_000 });
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
  const unconfirmed = await impact(...forgetAll);
  t.is(unconfirmed.exitCode, 2);
  t.regex(unconfirmed.stderr, /all customers of .* cannot be undone.* --dry-run, .* --yes/u);
  const planned = await impact(...forgetAll, "--dry-run");
  t.like(readJson(planned), { registrations: 1208, donations: 2, dry_run: true });
  t.not(holds(await dumpDatabase(databaseUrl), people[0] ?? createPerson()).length, 0);

  const run = await impact(...forgetAll, "--yes");

  t.like(readJson(run), { registrations: 1208, donations: 2 });
  const dump = await dumpDatabase(databaseUrl);
  t.deepEqual(
    people.flatMap((person) => holds(dump, person)),
    [],
  );
  t.false(dump.includes("a note"));
});

/** Serves a store to the platform, with what the tests send and do. */
const setUpPlatform = async (t: ExecutionContext<DatabaseContext>) => {
  const clock = createMovableClock("2026-01-10T12:00:00.000Z");
  const api = await startStoreApiOf(t, {
    clock,
    platformSecrets: SECRETS,
    store: { balanceCents: 10_000 },
  });
  const { domain } = api.store;
  return {
    ...api,
    send: (topic: string, request: object = {}, secret: string | null = SECRET) =>
      sendPlatformRequest(api, topic, { shop_domain: domain, ...request }, secret),
    /** Goes to a time so many days after the start. */
    passDays: (days: number) => {
      clock.set(new Date(Date.UTC(2026, 0, 10, 12) + days * DAY_MS).toISOString());
    },
    plant: () => api.post("/app/api/plant", api.store.test, { trees: 1, customer_id: "7" }),
    listCustomers: async () =>
      rowsIn((await api.get("/app/api/plant", api.store.test)).body, "trees").map(
        ({ customer_id }) => customer_id,
      ),
    install: (state: "on" | "off") =>
      runImpact(["store", "update", domain, "--installed", state], {
        env: { DATABASE_URL: t.context.databaseUrl },
        clock,
      }),
  };
};

const erased = (registrations: number, donations = 0) => ({
  status: 200,
  body: { erased: { registrations, donations } },
});

test.serial(
  "the platform's signed requests export and erase a customer, with either secret, at any time",
  async (t) => {
    const { databaseUrl } = t.context;
    const { store, send, passDays, plant, ...api } = await setUpPlatform(t);
    const person = createPerson();
    await leaveTraces(api, store, person);
    const request = {
      shop_id: 954_889,
      customer: { id: Number(person.id), email: person.email, phone: "555-625-1199" },
    };
    const orders = [299_938, 280_263];
    const [old, current] = SECRETS;

    const exported = await send(
      "customers/data_request",
      { ...request, orders_requested: orders },
      old,
    );
    const redaction = { ...request, orders_to_redact: orders };
    t.deepEqual(await send("customers/redact", redaction, current), erased(4, 1));
    t.deepEqual(await send("customers/redact", redaction, old), erased(0));

    t.is(exported.status, 200);
    t.true(JSON.stringify(exported.body).includes(person.name));
    t.deepEqual(holds(await dumpDatabase(databaseUrl), person), []);
    const listed = await impactOf(t)("audit", "list", "--org", store.id, "--json");
    t.true(listed.stdout.includes('"actor": "platform"'));
    for (const days of [0, 400]) {
      passDays(days);
      await plant();
      t.deepEqual(await send("customers/redact", { customer: { id: 7 } }), erased(1));
    }
  },
);

test.serial("a platform's request without a valid signature changes nothing", async (t) => {
  const { send, plant, listCustomers } = await setUpPlatform(t);
  await plant();
  const request = { customer: { id: 7 } };

  t.is((await send("customers/redact", request, null)).status, 401);
  t.is((await send("customers/redact", request, "x".repeat(32))).status, 401);
  t.is((await send("shop/update", request)).status, 400);
  t.is((await send("shop/redact", { shop_domain: undefined })).status, 400);
  t.deepEqual(await listCustomers(), ["7"]);

  const withoutSecret = await startStoreApi(t, t.context);
  const shop = { shop_domain: "a.example" };
  t.is((await sendPlatformRequest(withoutSecret, "shop/redact", shop, SECRET)).status, 404);
});

test.serial(
  "shop/redact erases all customers, of an unknown shop none, and of a reinstalled store those of before it",
  async (t) => {
    const { databaseUrl } = t.context;
    const { store, send, passDays, plant, listCustomers, install, ...api } = await setUpPlatform(t);
    const person = createPerson();
    await leaveTraces(api, store, person);
    await install("off");
    await install("on");

    t.deepEqual(await send("shop/redact", { shop_domain: "unknown.example" }), erased(0));
    t.deepEqual(await send("shop/redact"), erased(4, 1));
    t.deepEqual(holds(await dumpDatabase(databaseUrl), person), []);
    const listed = await impactOf(t)(
      "audit",
      "list",
      "--org",
      store.id,
      "--action",
      "store.forget",
      "--json",
    );
    t.like(readJson(listed), [{ action: "store.forget", actor: "platform" }]);

    await install("off");
    t.is((await send("shop/redact")).status, 200);
    await install("on");
    passDays(1);
    await plant();
    t.like(await send("shop/redact"), {
      status: 400,
      body: {
        error:
          "the store was reinstalled since this request was processed; an operator must uninstall it first",
      },
    });
    t.is((await listCustomers())[0], "7");
    await install("off");
    t.deepEqual(await send("shop/redact"), erased(1));
  },
);

test.serial("stored responses are replayed byte for byte, years later", async (t) => {
  const { db } = t.context;
  const clock = createMovableClock("2026-01-10T12:00:00.000Z");
  const { post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 }, clock });
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
  t.is(replayed.text, body);
  t.is(replayed.headers.get("Idempotent-Replayed"), "true");
});

for (const topic of ["customers/data_request", "customers/redact"]) {
  test(`the body of an answered ${topic} is no data request after three days`, async (t) => {
    const { send, passDays } = await setUpPlatform(t);
    const request = { customer: { id: 7 } };

    t.is((await send(topic, request)).status, 200);
    passDays(2.9);
    t.is((await send("customers/data_request", request)).status, 200);
    passDays(3.1);
    t.like(await send("customers/data_request", request), {
      status: 400,
      body: {
        error:
          "this request was answered before, on 2026-01-10T12:00:00.000Z; it can be repeated for three days",
      },
    });
    const another = { ...request, data_request: { id: 2 } };
    t.is((await send("customers/data_request", another)).status, 200);
  });
}

/** The bodies that Shopify signs, without the shop. */
const BODIES = {
  "customers/data_request": {
    customer: { id: 7, email: "ann@example.com" },
    orders_requested: [299_938],
    data_request: { id: 9999 },
  },
  "customers/redact": {
    customer: { id: 7, email: "ann@example.com" },
    orders_to_redact: [299_938],
  },
} as const;

const NOT_OF_TOPIC = "must not be given for this topic";

/** The topic of a signed request, its body without the shop, and why it is rejected. */
const MISUSED: readonly (readonly [string, object, string])[] = [
  ["customers/redact", BODIES["customers/data_request"], `orders_requested: ${NOT_OF_TOPIC}`],
  ["shop/redact", BODIES["customers/data_request"], `customer: ${NOT_OF_TOPIC}`],
  ["customers/data_request", BODIES["customers/redact"], `orders_to_redact: ${NOT_OF_TOPIC}`],
  ["shop/redact", BODIES["customers/redact"], `customer: ${NOT_OF_TOPIC}`],
  ["customers/redact", { customer: { id: 7 }, data_request: { id: 9999 } }, NOT_OF_TOPIC],
  ["customers/data_request", { customer: { id: "7\u0000" } }, "customer.id: "],
  ["customers/data_request", { customer: { email: "ann@\u0000.example" } }, "customer.email: "],
];

test("a body that was signed for another topic, or is malformed, is rejected and changes nothing", async (t) => {
  const { send, plant, listCustomers } = await setUpPlatform(t);
  await plant();

  for (const [topic, given, error] of MISUSED) {
    const { status, body } = await send(topic, given);
    t.is(status, 400, topic);
    t.true(JSON.stringify(body).includes(error), JSON.stringify(body));
  }
  t.deepEqual(await listCustomers(), ["7"]);
});
