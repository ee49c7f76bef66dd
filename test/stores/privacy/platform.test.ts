import { impactOf } from "../../cli/runImpact.ts";
import { createMovableClock } from "../../support/movableClock.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseTest } from "../../support/database.ts";
import { rowsIn, startStoreApi, startStoreApiOf } from "../startStoreApi.ts";
import type { StoreApi } from "../startStoreApi.ts";
import { DAY_MS } from "../../../runtime/durations.rules.ts";
import { signPlatformRequest } from "../../../api/http/signatures.ts";
import { createPerson, dumpDatabase, holds, leaveTraces } from "./traces.ts";

const test = testWithDatabase().serial;

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

/** Serves a store to the platform, with what the tests send and do. */
const setUpPlatform = async (t: DatabaseTest) => {
  const clock = createMovableClock("2026-01-10T12:00:00.000Z");
  const store = { balanceCents: 10_000 };
  const api = await startStoreApiOf(t, { clock, platformSecrets: SECRETS, store });
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
      impactOf(t, { clock })("store", "update", domain, "--installed", state),
  };
};

const erased = (registrations: number, donations = 0) => ({
  status: 200,
  body: { erased: { registrations, donations } },
});

test("the platform's signed requests export and erase a customer, with either secret, at any time", async (t) => {
  const { store, send, passDays, plant, ...api } = await setUpPlatform(t);
  const person = createPerson();
  await leaveTraces(api, store, person);
  const request = {
    shop_id: 954_889,
    customer: { id: Number(person.id), email: person.email, phone: "555-625-1199" },
  };
  const orders = [299_938, 280_263];
  const [old, current] = SECRETS;

  const question = { ...request, orders_requested: orders };
  const exported = await send("customers/data_request", question, old);
  const redaction = { ...request, orders_to_redact: orders };
  t.deepEqual(await send("customers/redact", redaction, current), erased(4, 1));
  t.deepEqual(await send("customers/redact", redaction, old), erased(0));

  t.is(exported.status, 200);
  t.true(JSON.stringify(exported.body).includes(person.name));
  t.deepEqual(holds(await dumpDatabase(t.context.databaseUrl), person), []);
  const listed = await impactOf(t)("audit", "list", "--org", store.id, "--json");
  t.true(listed.stdout.includes('"actor": "platform"'));
  for (const days of [0, 400]) {
    passDays(days);
    await plant();
    t.deepEqual(await send("customers/redact", { customer: { id: 7 } }), erased(1));
  }
});

test("a platform's request without a valid signature changes nothing", async (t) => {
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

test("shop/redact erases all customers, of an unknown shop none, and of a reinstalled store those of before it", async (t) => {
  const { store, send, passDays, plant, listCustomers, install, ...api } = await setUpPlatform(t);
  const person = createPerson();
  await leaveTraces(api, store, person);
  await install("off");
  await install("on");

  t.deepEqual(await send("shop/redact", { shop_domain: "unknown.example" }), erased(0));
  t.deepEqual(await send("shop/redact"), erased(4, 1));
  t.deepEqual(holds(await dumpDatabase(t.context.databaseUrl), person), []);
  const list = `audit list --org ${store.id} --action store.forget`;
  const listed = await impactOf(t).json(...list.split(" "));
  t.like(listed, [{ action: "store.forget", actor: "platform" }]);

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

/* The bodies that Shopify signs, without the shop. */
const customer = { id: 7, email: "ann@example.com" };
const QUESTION = { customer, orders_requested: [299_938], data_request: { id: 9999 } };
const REDACTION = { customer, orders_to_redact: [299_938] };

const NOT_OF_TOPIC = "must not be given for this topic";

/** The topic of a signed request, its body without the shop, and why it is rejected. */
const MISUSED: readonly (readonly [string, object, string])[] = [
  ["customers/redact", QUESTION, `orders_requested: ${NOT_OF_TOPIC}`],
  ["shop/redact", QUESTION, `customer: ${NOT_OF_TOPIC}`],
  ["customers/data_request", REDACTION, `orders_to_redact: ${NOT_OF_TOPIC}`],
  ["shop/redact", REDACTION, `customer: ${NOT_OF_TOPIC}`],
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
