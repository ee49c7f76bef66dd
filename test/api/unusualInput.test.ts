import { startStoreApiOf } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { rawRequest } from "./http/rawRequest.ts";
import { startStandaloneApi, startApiOf } from "./startStandaloneApi.ts";

const test = testWithDatabase();

const GUEST = {
  customer_name: null,
  customer_email: null,
  customer_id: null,
  order_id: null,
  notes: null,
};

test("a header stands in for an idempotency_key of null", async (t) => {
  const { call, key } = await startApiOf(t);

  const { body } = await call("POST", "/plant/trees", {
    key,
    body: { count: 1, idempotency_key: null },
    headers: { "Idempotency-Key": "order-1" },
  });

  t.like(body, { tree_details: [{ idempotency_key: "order-1" }] });
});

test("a store's writes accept null in optional fields, as the same request as without them", async (t) => {
  const { post, store } = await startStoreApiOf(t, { store: { balanceCents: 10_000 } });
  const headers = { ...store.live, "Idempotency-Key": "guest-1" };

  const planted = await post("/app/api/plant", headers, { trees: 2, ...GUEST });
  const repeated = await post("/app/api/plant", headers, { trees: 2 });

  t.like(planted, { status: 200, body: { customer_name: "", order_id: "" } });
  t.is(repeated.headers.get("Idempotent-Replayed"), "true");
});

test("the API description gives every field of a request one type, and accepted nulls none", async (t) => {
  const { url } = await startStandaloneApi(t, t.context);

  const document: unknown = await (await fetch(`${url}/openapi.json`)).json();

  t.like(document, {
    components: {
      schemas: {
        NewTreeRegistration: {
          required: ["count"],
          properties: {
            count: { type: "integer" },
            attribution: { type: "string", maxLength: 1000 },
            metadata: { $ref: "#/components/schemas/Metadata" },
          },
        },
      },
    },
  });
});

const sendTarget = (url: string, line: string) =>
  rawRequest(url, `${line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);

test("a target that is neither a path nor a URL with one is a 400 on both interfaces", async (t) => {
  const standalone = await startApiOf(t);
  const store = await startStoreApiOf(t);

  for (const { url } of [standalone, store]) {
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
    for (const line of ["GET //", "GET http:///x", "GET /%", "GET /%ff", "GET http://a:99999/"]) {
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
  const { url, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  const postToStore = (body: Buffer) =>
    fetch(`${url}/app/api/plant`, {
      method: "POST",
      headers: { ...store.live, "Content-Type": "application/json" },
      body: Uint8Array.from(body),
    });
  const error = "the body is not valid UTF-8";

  for (const bytes of INVALID_UTF8) {
    for (const length of [0, 40_000]) {
      const bodyWith = (name: string) =>
        Buffer.concat([
          Buffer.from(`{"${name}":1,${" ".repeat(length)}"attribution":"a`),
          Buffer.from(bytes),
          Buffer.from('"}'),
        ]);
      t.like(await call("POST", "/plant/trees", { key, body: bodyWith("count") }), {
        status: 400,
        body: { error },
      });
      const storePlanted = await postToStore(bodyWith("trees"));
      t.is(storePlanted.status, 400);
      t.deepEqual(await storePlanted.json(), { error, code: "INVALID_PARAMETER" });
    }
  }
  t.like((await call("GET", "/plant/trees", { key })).body, { total_planted_trees: 0 });
  const replacement = await call("POST", "/plant/trees", {
    key,
    body: Buffer.from('\ufeff{"count":1,"attribution":"\ufffd"}'),
  });
  t.like(replacement.body, { tree_details: [{ attribution: "\ufffd" }] });
});
