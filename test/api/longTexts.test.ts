import { z } from "zod";
import { issueKey } from "../../modules/accounts/manageKeys.ts";
import { impactOf, readJson } from "../cli/runImpact.ts";
import { untilComplete } from "../events/readEvents.ts";
import { rowsIn, startStoreApiOf } from "../stores/startStoreApi.ts";
import { EIN } from "../stores/storeState.ts";
import { testWithDatabase } from "../support/database.ts";
import { setUpWebhooks, verify } from "../events/webhookScene.ts";
import { eachKind, idIn, KIND_NAMES } from "./contract.ts";
import { startApiOf, startStandaloneApi } from "./startStandaloneApi.ts";

const test = testWithDatabase();

/** Random characters of four bytes: no compression makes enough of them fit into an entry of an index. */
const randomText = (length: number): string =>
  Array.from({ length }, () =>
    String.fromCodePoint(0x2_00_00 + Math.floor(Math.random() * 0xa0_00)),
  ).join("");

/** As long as names, ids, keys and tags may be. */
const short = (): string => ` ${randomText(998)} `;
/** As long as notes and reasons may be. */
const long = (): string => ` ${randomText(9998)} `;
const METADATA = { text: randomText(16_200), " ": "  x " };

eachKind(test)("a registration has room for texts, and shows them as sent", async (t, kind) => {
  const { path, refundPath, details } = KIND_NAMES[kind];
  const { call, key, url } = await startApiOf(t);
  const given = { count: 3, attribution: short(), idempotency_key: short(), metadata: METADATA };

  const { status, body } = await call("POST", path, { key, body: given });
  t.is(status, 200);
  t.like(body, { [details]: [given] });
  const id = idIn(body, kind);
  const replay = await call("POST", path, { key, body: given });
  t.is(replay.headers.get("Idempotent-Replayed"), "true");
  t.is(idIn(replay.body, kind), id);
  // Texts that differ only at their ends are different.
  const others = { attribution: `${given.attribution} `.slice(1), idempotency_key: short() };
  await call("POST", path, { key, body: { ...given, ...others } });

  for (const [name, value] of [
    ["attribution_key", given.attribution],
    ["id", id],
  ] as const) {
    const query = new URLSearchParams({ [name]: value });
    const listed = await call("GET", `${path}?${query.toString()}`, { key });
    t.like(listed.body, { [details]: { length: 1, 0: given } });
  }
  const headers = { Authorization: key, Accept: "text/csv" };
  const csv = await fetch(`${url}${path}?id=${id}`, { headers });
  t.true((await csv.text()).includes(`,${given.idempotency_key},`));
  const feed = await untilComplete(
    () => call("GET", "/events", { key }),
    (page) => page.body["held_back_since"] !== null,
  );
  const [event] = rowsIn(feed.body, "events");
  t.like(event, { data: { ...given, registration_id: id } });

  const refund = { id, count: 1, reason: long(), idempotency_key: short() };
  t.is((await call("POST", refundPath, { key, body: refund })).status, 200);
  const again = await call("POST", refundPath, { key, body: refund });
  t.is(again.headers.get("Idempotent-Replayed"), "true");
});

test("a batch has room for items of every size", async (t) => {
  const { post } = await startApiOf(t);
  const items = Array.from({ length: 10 }, () => {
    return { count: 1, attribution: short(), idempotency_key: short(), metadata: METADATA };
  });

  for (const idempotent_replayed of [false, true]) {
    const results = items.map((item) => ({ idempotent_replayed, body: { tree_details: [item] } }));
    const { body } = await post("/plant/trees/batch", { items });
    t.like(body, { succeeded: 10, results });
  }
});

test("a donation and its refund have room for texts, in responses, lists and webhooks", async (t) => {
  const { deps, accountId, receiver, secret, deliver, pass } = await setUpWebhooks(t);
  const { key } = await issueKey(deps, { id: accountId, type: "organization" }, "live");
  const { call } = await startStandaloneApi(t, t.context);
  await call("POST", "/charities/subscribe", { key });
  const given = {
    amount_cents: 500,
    charity_name: short(),
    attribution: short(),
    idempotency_key: short(),
    metadata: METADATA,
  };

  const { body } = await call("POST", "/charities/donate", { key, body: { ...given, ein: EIN } });
  t.like(body, { donation_details: [given] });
  const query = new URLSearchParams({ attribution: given.attribution });
  const listed = await call("GET", `/charities/donations?${query.toString()}`, { key });
  t.like(listed.body, { total_items: 1, donations: [given] });
  const repeatable = { idempotency_key: short(), metadata: METADATA };
  const refund = { id: body["donation_id"], reason: long(), ...repeatable };
  t.is((await call("POST", "/refund/donations", { key, body: refund })).status, 200);
  t.is((await call("POST", "/refund/donations", { key, body: refund })).status, 200);

  pass(60_000);
  await deliver();
  const messages = receiver.received.map((received) => verify(received, secret));
  const created = messages.find(({ type }) => type === "donation.created");
  t.like(created, { data: { charity_name: given.charity_name, donation_id: body["donation_id"] } });
});

test("a store's records have room for texts, are shown as sent, and are found and erased by them", async (t) => {
  const { get, post, store } = await startStoreApiOf(t, { store: { balanceCents: 10_000 } });
  const customer = {
    customer_name: short(),
    customer_email: ` ${randomText(984)}@EXAMPLE.com `,
    customer_id: short(),
    order_id: ` #${randomText(997)} `,
  };
  const notes = long();
  const headers = { ...store.live, "Idempotency-Key": encodeURIComponent(randomText(80)) };

  const planted = await post("/app/api/plant", headers, { trees: 2, ...customer, notes });
  t.like(planted.body, { customer_name: customer.customer_name, order_id: customer.order_id });
  const again = await post("/app/api/plant", headers, { trees: 2, ...customer, notes });
  t.is(again.text, planted.text);
  await post("/app/api/plant", store.live, { trees: 1, customer_name: "Ann" });
  const donation = { charity_id: EIN, amount_dollars: 1, ...customer };
  t.is((await post("/app/api/charity/donate", store.live, donation)).status, 200);

  for (const [name, value] of Object.entries({
    ...customer,
    customer: customer.customer_name,
    email: customer.customer_email.toLowerCase(),
  })) {
    const query = new URLSearchParams({ [name]: value });
    const { body } = await get(`/app/api/plant?${query.toString()}`, store.live);
    t.like(rowsIn(body, "trees"), { length: 1, 0: { ...customer, notes } }, name);
  }
  const reversed = await post("/app/api/refund", store.live, {
    type: "tree",
    quantity: 1,
    order_id: customer.order_id,
    customer_name: customer.customer_name,
    reason: long(),
  });
  t.is(reversed.status, 200);

  const impact = impactOf(t);
  const identified = [store.domain, "--customer-email", customer.customer_email];
  const exported = z
    .looseObject({ registrations: z.array(z.looseObject({})) })
    .parse(readJson(await impact("store", "export-customer", ...identified)));
  t.like(exported.registrations[0], { ...customer, notes });
  const erased = await impact("store", "forget", ...identified, "--json");
  t.like(readJson(erased), { registrations: 1, donations: 1 });
  const { body } = await get("/app/api/plant", store.live);
  const names = rowsIn(body, "trees").map((row) => row["customer_name"]);
  t.deepEqual(names, ["Ann", ""]);
});

test("a body of 1 MiB is read, whatever its length was announced as, and one byte more is a 413", async (t) => {
  const { call, key, url } = await startApiOf(t);
  const body = '{"count":1}'.padEnd(1024 * 1024);
  t.is((await call("POST", "/plant/trees", { key, body })).status, 200);
  t.is((await call("POST", "/plant/trees", { key, body: `${body} ` })).status, 413);
  const sendChunked = (text: string) =>
    fetch(`${url}/plant/trees`, {
      method: "POST",
      headers: { Authorization: key, "Content-Type": "application/json" },
      body: new Blob([text]).stream(),
      duplex: "half",
    });
  t.is((await sendChunked(body)).status, 200);
  t.is((await sendChunked(`${body} `)).status, 413);
});

test("an organization's name has room", async (t) => {
  const name = randomText(1000);
  const { exitCode, stdout } = await impactOf(t)("org", "create", "--name", name, "--json");
  t.is(exitCode, 0);
  t.like(JSON.parse(stdout), { name });
});
