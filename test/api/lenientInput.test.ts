import type { ExecutionContext } from "ava";
import { EIN } from "../charities/donations/donationSetup.ts";
import { createTestStore, startStoreApiOf } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { idIn } from "./contract.ts";
import { listOperations } from "./responseChecker.ts";
import { startApiOf } from "./startStandaloneApi.ts";
import { rawRequest } from "./http/rawRequest.ts";

const test = testWithDatabase();

type Headers = Readonly<Record<string, string>>;

test("a range that ends before it begins has nothing in it", async (t) => {
  const { call, apiKeyTest: key } = await startApiOf(t);
  await call("POST", "/plant/trees", { key, body: { count: 1 } });
  await call("POST", "/charities/donate", { key, body: { amount_cents: 5, ein: EIN } });

  for (const [path, rows] of [
    ["/plant/trees?created_at=9999-12-31&end_at=0001-01-01&first=5", "tree_details"],
    ["/charities/donations?start_date=2026-02-01&end_date=2026-01-01", "donations"],
    ["/usage?created_at=2026-03-02&end_at=2026-03-01", "usage"],
    ["/stats?kind=tree&from=2026-03-02&to=2026-03-01", "stats"],
    ["/stats?kind=donation&interval=month&from=2026-03-02&to=2026-03-01", "stats"],
    ["/stats?kind=tree&group_by=attribution&from=9999-12-31&to=0001-01-01", "stats"],
  ] as const) {
    const { status, body } = await call("GET", path, { key });
    t.is(status, 200, path);
    t.deepEqual(body[rows], [], path);
  }
});

test("a number and its text are the same order", async (t) => {
  const { get, post, store } = await startStoreApiOf(t);
  const keyed = { ...store.test, "Idempotency-Key": "k" };

  const first = await post("/app/api/plant", keyed, { trees: 1, order_id: 1002, customer_id: 7 });
  const texts = { order_id: "1002", customer_id: "7" };
  const again = await post("/app/api/plant", keyed, { trees: 1, ...texts });

  t.is(first.status, 200);
  t.is(again.text, first.text);
  t.like((await get("/app/api/plant?order_id=1002&customer_id=7", store.test)).body, {
    trees: [{ customer_id: "7", order_id: "1002" }],
  });
});

test("the name email means customer_email in every write of a store", async (t) => {
  const { get, post, store } = await startStoreApiOf(t);
  const customer = { email: "ann@example.com" };
  const writes = [
    ["plant", { trees: 2 }],
    ["plastic", { bottles: 2 }],
    ["charity/donate", { charity_id: EIN, amount: 1 }],
  ] as const;
  for (const [path, body] of writes) {
    t.is((await post(`/app/api/${path}`, store.test, { ...body, ...customer })).status, 200);
    const both = { ...body, ...customer, customer_email: customer.email };
    const blank = { ...body, ...customer, customer_email: "" };
    t.is((await post(`/app/api/${path}`, store.test, blank)).status, 200);
    t.is((await post(`/app/api/${path}`, store.test, both)).status, 200);
    const wrong = { ...both, email: "b@example.com" };
    const different = await post(`/app/api/${path}`, store.test, wrong);
    t.is(different.status, 400);
    t.regex(String(different.body["error"]), /^customer_email: customer_email, email are aliases/u);
  }
  await post("/app/api/plant", store.test, { trees: 7 });

  const read = async () =>
    (await get("/app/api/impact/stats?email=ANN@example.com", store.test)).body;
  t.like(await read(), { trees: 6, plastic_bottles: 6, donations: 3 });
  const refund = { type: "tree", quantity: 1, ...customer };
  t.is((await post("/app/api/refund", store.test, refund)).status, 200);
  t.like(await read(), { trees: 5 });
});

test("the header Idempotency-Key and the field are the same key, and quotes around the header are syntax, on both interfaces", async (t) => {
  const { call, apiKeyTest: key } = await startApiOf(t);
  const { post, store } = await startStoreApiOf(t);

  for (const [written, meant] of [
    ["order-1", "order-1"],
    ['"abc"', "abc"],
    [String.raw`"a\"b\\c"`, String.raw`a"b\c`],
    ['"', '"'],
    ['"a"b"', '"a"b"'],
  ] as const) {
    const plant = (body: object, header: string | null) =>
      call("POST", "/plant/trees", {
        key,
        body: { count: 1, ...body },
        headers: header === null ? {} : { "Idempotency-Key": header },
      });
    t.like((await plant({}, written)).body, { tree_details: [{ idempotency_key: meant }] });
    const again = await plant({ idempotency_key: meant }, null);
    t.is(again.headers.get("Idempotent-Replayed"), "true", written);
    for (const field of [meant, "", null]) {
      const both = await plant({ idempotency_key: field }, written);
      t.is(both.headers.get("Idempotent-Replayed"), "true", written);
    }

    const ofStore = (header: string) =>
      post("/app/api/plant", { ...store.test, "Idempotency-Key": header }, { trees: 1 });
    await ofStore(written);
    t.is((await ofStore(meant)).headers.get("Idempotent-Replayed"), "true", written);
  }
  const unkeyed = { key, body: { count: 1 }, headers: { "Idempotency-Key": '""' } };
  const { body: planted } = await call("POST", "/plant/trees", unkeyed);
  t.like(planted, { tree_details: [{ idempotency_key: "" }] });
});

test("USD is accepted as the currency of a donation, in any case", async (t) => {
  const { call, apiKeyTest: key } = await startApiOf(t);
  const { post, store } = await startStoreApiOf(t);

  for (const [currency, status] of [
    ["USD", 200],
    ["usd", 200],
    [null, 200],
    ["EUR", 400],
    ["", 400],
    [840, 400],
  ] as const) {
    const donation = { key, body: { amount_cents: 5, ein: EIN, currency } };
    t.is((await call("POST", "/charities/donate", donation)).status, status, String(currency));
    const body = { charity_id: EIN, amount: 1, currency };
    t.is((await post("/app/api/charity/donate", store.test, body)).status, status);
  }
});

test("an id that is malformed is as unknown as another account's or the other mode's", async (t) => {
  const { call, url, apiKeyProd, apiKeyTest: key } = await startApiOf(t);
  const other = await createTestOrganization(t.context.db);
  const endpoint = { url: "https://shop.example/x" };
  const created = async (caller: string) => {
    const tree = await call("POST", "/plant/trees", { key: caller, body: { count: 1 } });
    const hook = await call("POST", "/webhook_endpoints", { key: caller, body: endpoint });
    return { tree: idIn(tree.body, "tree"), hook: String(hook.body["id"]) };
  };
  const strangers = [await created(apiKeyProd), await created(other.apiKeyTest)];
  const ownHook = (await created(key)).hook;

  const requests: readonly (readonly [number, string, string, ("tree" | "hook")?])[] = [
    [404, "POST", "/refund/trees"],
    [404, "POST", "/refund/plastic_bottles"],
    [404, "POST", "/refund/donations"],
    [404, "GET", "/evidence/tree/ID"],
    [404, "GET", "/usage/ID"],
    [404, "GET", "/certificate_url?id=ID"],
    [200, "GET", "/plant/trees?id=ID"],
    [400, "GET", "/plant/trees?after=ID"],
    [400, "GET", "/usage?starting_after=ID"],
    [410, "GET", "/events?starting_after=ID"],
    [404, "GET", "/webhook_endpoints/ID", "hook"],
    [404, "POST", "/webhook_endpoints/ID", "hook"],
    [404, "DELETE", "/webhook_endpoints/ID", "hook"],
    [404, "GET", "/webhook_endpoints/ID/deliveries", "hook"],
    [404, "POST", "/webhook_endpoints/ID/rotate", "hook"],
    [404, "POST", "/webhook_endpoints/ID/ping", "hook"],
    [404, "POST", "/webhook_endpoints/ID/recover", "hook"],
    [404, "POST", `/webhook_endpoints/${ownHook}/recover`],
  ];
  for (const [expected, method, path, kind = "tree"] of requests) {
    const responses = new Set<string>();
    for (const id of [
      crypto.randomUUID(),
      ...strangers.map((stranger) => stranger[kind]),
      "7",
      7,
      "x".repeat(2000),
      "é \u0000'%",
    ]) {
      const response = await fetch(url + path.replace("ID", encodeURIComponent(id)), {
        method,
        headers: { Authorization: key, "Content-Type": "application/json" },
        ...(method === "POST" ? { body: JSON.stringify({ id, event_id: String(id) }) } : {}),
      });
      t.is(response.status, expected, `${method} ${path} with ${id}`);
      responses.add(await response.text());
    }
    t.is(responses.size, 1, `${method} ${path}: ${[...responses].join(" | ")}`);
  }
});

test("the same holds for the ids of a store", async (t) => {
  const { get, post, store: own } = await startStoreApiOf(t, { store: { balanceCents: 100 } });
  const other = await createTestStore(t.context.db);
  const planted = async (headers: Headers) =>
    (await post("/app/api/plant", headers, { trees: 1 })).headers.get("Record-Id") ?? "";
  const strangers = [await planted(own.live), await planted(other.test)];

  for (const path of [
    "/app/api/evidence?tree_id=",
    "/app/api/evidence?id=",
    "/app/api/evidence?tree=",
    "/app/api/certificate_url?id=",
    "/app/api/webhook_endpoints/",
  ]) {
    for (const id of [crypto.randomUUID(), ...strangers, "7", "x".repeat(2000), "é \u0000'%"]) {
      const response = await get(path + encodeURIComponent(id), own.test);
      t.like(response, { status: 404, body: { code: "NOT_FOUND" } }, path + id);
    }
  }
});

const UNKNOWN_PARAMETERS = "foo=1&foo=2&page%5B%5D=1&utm_source=mail&_=3&=x&count=9&__proto__=1&&";
const UNKNOWN_FIELDS = {
  foo: 1,
  page: { size: [null] },
  "": "x",
  constructor: null,
  ["__proto__"]: { idempotency_key: "k" },
};

/**
 * Calls every operation with and without unknown parameters and fields. The response lists everything that is wrong with a
 * request, so what most operations lack here does not hide that an unknown name is rejected.
 */
const ignoresUnknown = async (
  t: ExecutionContext,
  url: string,
  headers: Headers,
): Promise<void> => {
  const operations = await listOperations(url);
  t.true(operations.length > 10);
  for (const { name, method, path } of operations) {
    const send = async (query: string, fields: object): Promise<string> => {
      const response = await fetch(`${url}${path}?${query}`, {
        method,
        headers: { ...headers, "Content-Type": "application/json" },
        ...(method === "POST" && { body: JSON.stringify(fields) }),
      });
      const text = await response.text();
      return `${response.status} ${text.replaceAll(/\d{4}-\d{2}-\d{2}T[\d:.]+Z/gu, "TIME")}`;
    };
    // The first call may change something, such as a subscription.
    await send("", {});
    const plain = await send("", {});
    t.is(await send(UNKNOWN_PARAMETERS, UNKNOWN_FIELDS), plain, name);
    t.false(plain.startsWith("5"), `${name}: ${plain}`);
  }
};

test("every operation of both interfaces ignores unknown parameters and fields", async (t) => {
  const { url, apiKeyTest } = await startApiOf(t);
  await ignoresUnknown(t, url, { Authorization: apiKeyTest });
  const ofStore = await startStoreApiOf(t);
  await ignoresUnknown(t, ofStore.url, ofStore.store.test);
});

test("a store's writes accept null in optional fields, as the same request as without them", async (t) => {
  const { post, store } = await startStoreApiOf(t, { store: { balanceCents: 10_000 } });
  const headers = { ...store.live, "Idempotency-Key": "guest-1" };

  const customer = { customer_name: null, customer_email: null, customer_id: null };
  const guest = { ...customer, order_id: null, notes: null };
  const planted = await post("/app/api/plant", headers, { trees: 2, ...guest });
  const repeated = await post("/app/api/plant", headers, { trees: 2 });

  t.like(planted, { status: 200, body: { customer_name: "", order_id: "" } });
  t.is(repeated.headers.get("Idempotent-Replayed"), "true");
});

const sendTarget = (url: string, line: string) =>
  rawRequest(url, `${line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);

test("a target that is neither a path nor a URL with one is a 400 on both interfaces", async (t) => {
  const standalone = await startApiOf(t);

  for (const { url } of [standalone, await startStoreApiOf(t)]) {
    for (const line of [
      "GET http://[",
      "GET http://[::1/plant/trees",
      "GET http://",
      "GET https://",
      "GET http://?",
      "POST http://",
      "GET *",
      "OPTIONS *",
    ]) {
      const response = await sendTarget(url, line);
      t.regex(response, /^HTTP\/1\.1 400 /u, line);
      t.regex(response, /\{"error":"the request target is not a valid URL"[^}]*\}$/u, line);
    }
    for (const line of ["GET ?", "GET x", "GET mailto:x"]) {
      t.regex(await sendTarget(url, line), /^HTTP\/1\.1 400 /u, line);
    }
    for (const line of ["GET //", "GET http:///x", "GET /%", "GET /%ff", "GET http://a:99999/x"]) {
      t.regex(await sendTarget(url, line), /^HTTP\/1\.1 404 /u, line);
    }
    const long = `/${"a".repeat(20_000)}`;
    t.regex(await sendTarget(url, `GET ${long}`), /^HTTP\/1\.1 431 /u);
    t.regex(await sendTarget(url, `GET http://x${long}`), /^HTTP\/1\.1 431 /u);
    t.regex(await sendTarget(url, "GET http://x/openapi.json"), /^HTTP\/1\.1 200 /u);
  }
  t.false(standalone.logged().some((line) => line["msg"] === "request failed"));
});

/** Bytes that are not UTF-8: a byte that begins nothing, a surrogate, an overlong NUL, the beginning of a character. */
const INVALID_UTF8 = [[0xff], [0xed, 0xa0, 0x80], [0xc0, 0x80], [0xf0, 0x9f, 0x98]];

test("a body that is not UTF-8 is a 400 on both interfaces", async (t) => {
  const { call, key } = await startApiOf(t);
  const { post, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  const error = "the body is not valid UTF-8";

  for (const bytes of INVALID_UTF8) {
    for (const length of [0, 40_000]) {
      const bodyWith = (name: string) =>
        Buffer.concat([
          Buffer.from(`{"${name}":1,${" ".repeat(length)}"attribution":"a`),
          Buffer.from(bytes),
          Buffer.from('"}'),
        ]);
      const planted = await call("POST", "/plant/trees", { key, body: bodyWith("count") });
      t.like(planted, { status: 400, body: { error } });
      const storePlanted = await post("/app/api/plant", store.live, bodyWith("trees"));
      t.is(storePlanted.status, 400);
      t.deepEqual(storePlanted.body, { error, code: "INVALID_PARAMETER" });
    }
  }
  t.like((await call("GET", "/plant/trees", { key })).body, { total_planted_trees: 0 });
  const body = Buffer.from('\ufeff{"count":1,"attribution":"\ufffd"}');
  const replacement = await call("POST", "/plant/trees", { key, body });
  t.like(replacement.body, { tree_details: [{ attribution: "\ufffd" }] });
});
