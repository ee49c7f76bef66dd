import { DAY_MS } from "../../../runtime/durations.rules.ts";
import { readJson, runImpact } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import { createMovableClock } from "../../support/movableClock.ts";
import { startStoreApiOf } from "../startStoreApi.ts";
import { sendPlatformRequest } from "./sendPlatformRequest.ts";

const test = testWithDatabase();

const SECRET = "o".repeat(32);
const START_MS = Date.UTC(2026, 0, 10, 12);
const ERASED = { status: 200, body: { erased: { registrations: 1, donations: 0 } } };

const daysLater = (days: number): string => new Date(START_MS + days * DAY_MS).toISOString();

for (const topic of ["customers/data_request", "customers/redact"]) {
  test(`the body of an answered ${topic} is no data request after three days`, async (t) => {
    const clock = createMovableClock(daysLater(0));
    const api = await startStoreApiOf(t, { clock, platformSecrets: [SECRET] });
    const request = { shop_domain: api.store.domain, customer: { id: 7 } };
    const send = (sent: string, body: object = request) =>
      sendPlatformRequest(api, sent, body, SECRET);

    t.is((await send(topic)).status, 200);
    clock.set(daysLater(2.9));
    t.is((await send("customers/data_request")).status, 200);
    clock.set(daysLater(3.1));
    const late = await send("customers/data_request");

    t.is(late.status, 400);
    t.like(late.body, {
      error:
        "this request was answered before, on 2026-01-10T12:00:00.000Z; it can be repeated for three days",
    });
    const another = { ...request, data_request: { id: 2 } };
    t.is((await send("customers/data_request", another)).status, 200);
    t.is((await send("customers/redact")).status, 200);
  });
}

test("the platform may repeat the erasure of a customer at any time", async (t) => {
  const clock = createMovableClock(daysLater(0));
  const api = await startStoreApiOf(t, { clock, platformSecrets: [SECRET] });
  const { post, store } = api;
  const request = { shop_domain: store.domain, customer: { id: 7 }, orders_to_redact: [] };

  for (const days of [0, 400]) {
    clock.set(daysLater(days));
    await post("/app/api/plant", store.test, { trees: 1, customer_id: "7" });
    t.deepEqual(await sendPlatformRequest(api, "customers/redact", request, SECRET), ERASED);
  }
});

test("a shop/redact of before the reinstallation erases nothing until the store is uninstalled again", async (t) => {
  const clock = createMovableClock(daysLater(0));
  const api = await startStoreApiOf(t, { clock, platformSecrets: [SECRET] });
  const { post, get, store } = api;
  const impact = (...args: readonly string[]) =>
    runImpact(args, { env: { DATABASE_URL: t.context.databaseUrl }, clock });
  const plant = () => post("/app/api/plant", store.test, { trees: 1, customer_id: "7" });
  const redact = () =>
    sendPlatformRequest(api, "shop/redact", { shop_domain: store.domain }, SECRET);

  await plant();
  await impact("store", "update", store.domain, "--installed", "off");
  t.deepEqual(await redact(), ERASED);
  t.is((await redact()).status, 200);
  await impact("store", "update", store.domain, "--installed", "on");
  clock.set(daysLater(1));
  t.is((await plant()).status, 200);
  const replayed = await redact();

  t.is(replayed.status, 400);
  t.like(replayed.body, {
    error:
      "the store was reinstalled since this request was processed; an operator must uninstall it first",
  });
  t.like((await get("/app/api/plant", store.test)).body, {
    trees: [{ customer_id: "7" }, { customer_id: "" }],
  });
  await impact("store", "update", store.domain, "--installed", "off");
  t.deepEqual(await redact(), ERASED);
});

test("a shop/redact that was not processed before erases the customers of a reinstalled store", async (t) => {
  const api = await startStoreApiOf(t, { platformSecrets: [SECRET] });
  const { post, store } = api;
  const impact = (...args: readonly string[]) =>
    runImpact(args, { env: { DATABASE_URL: t.context.databaseUrl } });
  await post("/app/api/plant", store.test, { trees: 1, customer_id: "7" });
  await impact("store", "update", store.domain, "--installed", "off");
  await impact("store", "update", store.domain, "--installed", "on");

  const request = { shop_domain: store.domain };
  t.deepEqual(await sendPlatformRequest(api, "shop/redact", request, SECRET), ERASED);

  const listed = await impact("audit", "list", "--org", store.id, "--json");
  t.like(readJson(listed), [{ action: "store.forget", actor: "platform" }]);
});
