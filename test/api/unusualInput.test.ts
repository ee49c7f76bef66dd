import { brotliCompressSync, gzipSync } from "node:zlib";
import { startStoreApiOf } from "../stores/startStoreApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { createRandom } from "../support/random.ts";
import type { Random } from "../support/random.ts";
import { KIND_NAMES } from "./contract.ts";
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

/** JSON texts of values that often break programs. */
const EVIL: readonly string[] = [
  "0 -0 -1 1 1.5 1e308 -1e308 1e-320 1e400 9007199254740991 9007199254740993 1234567890123456789012345".split(
    " ",
  ),
  ["null", "true", "false", "[]", "{}", '""', '"\\u0000"', '"\\ud800"', '"\\udc00\\ud800"'],
  ['"\u202e\ufeff\ufffd\ufffe"', '"; DROP TABLE registration; --"', '"\' OR 1=1 --"'],
  ['"2026-02-30"', '"__proto__"', '"constructor"', '"%00"', '"\\\\u0000"', '"{}"', '"NaN"'],
  ['{"__proto__":{"count":1}}', '{"toString":1}', '{"\\u0000":1}', '{"":""}', "[[[[]]]]"],
  [`"${"x".repeat(5000)}"`, `${"[".repeat(500)}${"]".repeat(500)}`],
  ['"0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11"', '"refund-1"'],
  ['{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":1}}}}}}}}'],
].flat();

const NAMES =
  "count fractional_count attribution metadata idempotency_key id reason __proto__ constructor toJSON COUNT \\u0000".split(
    " ",
  );

const PARAMETERS =
  "attribution_key id created_at end_at metadata __proto__ constructor attribution_key[] id[0] %00 %ff a=b".split(
    " ",
  );

const HEADERS = [
  ["Content-Type", "application/json; charset=utf-8; charset=latin1"],
  ["Content-Type", "application/json\t;"],
  ["Content-Encoding", "gzip, gzip"],
  ["Content-Encoding", "identity"],
  ["X-Request-Id", "%s%n\u00ff"],
  ["X-Forwarded-For", "1.2.3.4, ::1, x"],
  ["Accept", "application/xml;q=9"],
  ["If-None-Match", "*"],
  ["Range", "bytes=0-1"],
  ["X-HTTP-Method-Override", "DELETE"],
  ["Upgrade", "h2c"],
  ["Cookie", "a=b; c"],
  ["Accept-Encoding", "gzip;q=0, *;q=x"],
] as const;

const evilObject = (random: Random): string => {
  const pairs = Array.from(
    { length: random.below(5) },
    () => `"${random.pick(NAMES)}":${random.pick(EVIL)}`,
  );
  return `{${pairs.join(",")}}`;
};

const evilBody = (random: Random): string => {
  const body = random.below(4) === 0 ? random.pick(EVIL) : evilObject(random);
  return random.below(6) === 0 ? body.slice(0, random.below(body.length + 1)) : body;
};

const evilQuery = (random: Random): string =>
  Array.from({ length: random.below(4) }, () => {
    const value = random.pick(EVIL).slice(0, 1000);
    const written =
      random.below(3) === 0
        ? value.replaceAll(/[\s#\u0080-\uffff]/gu, "%")
        : encodeURIComponent(value);
    return `${random.pick(PARAMETERS)}=${written}`;
  }).join("&");

const evilRequest = (
  random: Random,
  key: string,
): { readonly head: string; readonly body: string } => {
  const { path, refundPath } = random.pick(Object.values(KIND_NAMES));
  const [method, where] = random.pick([
    ["GET", path],
    ["HEAD", path],
    ["POST", path],
    ["POST", refundPath],
    ["OPTIONS", path],
  ] as const);
  const query = random.below(method === "POST" ? 8 : 2) === 0 ? "" : `?${evilQuery(random)}`;
  const body = method === "POST" ? evilBody(random) : "";
  const extra = random.below(4) === 0 ? [random.pick(HEADERS).join(": ")] : [];
  const head = [
    `${method} ${where}${method === "POST" && random.below(8) > 0 ? "" : query} HTTP/1.1`,
    "Host: x",
    `Authorization: ${key}`,
    ...(extra[0]?.startsWith("Content-Type") ? [] : ["Content-Type: application/json"]),
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...extra,
    "Connection: close",
  ];
  return { head: head.join("\r\n"), body };
};

const isWhole = (received: string): boolean => {
  const [head = "", ...rest] = received.split("\r\n\r\n");
  if (head.includes("chunked")) {
    return received.endsWith("0\r\n\r\n");
  }
  return (
    /content-length: (\d+)/iu.exec(head)?.[1] === String(Buffer.byteLength(rest.join("\r\n\r\n")))
  );
};

for (const seed of [1, 2, 3]) {
  test(`no request gets a 500 (seed ${seed})`, async (t) => {
    const { url, logged } = await startStandaloneApi(t, t.context);
    const { apiKeyProd: key } = await createTestOrganization(t.context.db, {
      fractionalCounting: true,
    });
    const random = createRandom(seed);
    const statuses = new Set<string>();
    for (let round = 0; round < 300; round += 1) {
      const { head, body } = evilRequest(random, key);
      const received = await rawRequest(url, `${head}\r\n\r\n${body}`);
      const status = received.slice(9, 12);
      statuses.add(status);

      t.regex(status, /^[24]\d\d$/u, `${head}\n\n${body}`);
      if (!head.startsWith("HEAD") && status !== "204") {
        t.true(isWhole(received), `${head}\n\n${body}\n\n${received}`);
      }
    }
    t.false(logged().some((line) => line["msg"] === "request failed"));
    t.true(statuses.has("200") && statuses.has("400"));
  });
}

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

test("a body that is not UTF-8 is a 400 on both interfaces, compressed or not", async (t) => {
  const { call, key } = await startApiOf(t);
  const { url, store } = await startStoreApiOf(t, { store: { balanceCents: 1000 } });
  const postToStore = (headers: Record<string, string>, body: Buffer) =>
    fetch(`${url}/app/api/plant`, {
      method: "POST",
      headers: { ...store.live, "Content-Type": "application/json", ...headers },
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
      for (const [headers, encode] of [
        [{}, (body: Buffer) => body],
        [{ "Content-Encoding": "gzip" }, (body: Buffer) => gzipSync(body)],
        [{ "Content-Encoding": "br" }, (body: Buffer) => brotliCompressSync(body)],
      ] as const) {
        const planted = await call("POST", "/plant/trees", {
          key,
          body: encode(bodyWith("count")),
          headers,
        });
        t.like(planted, { status: 400, body: { error } });
        const storePlanted = await postToStore(headers, encode(bodyWith("trees")));
        t.is(storePlanted.status, 400);
        t.deepEqual(await storePlanted.json(), { error, code: "INVALID_PARAMETER" });
      }
    }
  }
  t.like((await call("GET", "/plant/trees", { key })).body, { total_planted_trees: 0 });
  const replacement = await call("POST", "/plant/trees", {
    key,
    body: Buffer.from('\ufeff{"count":1,"attribution":"\ufffd"}'),
  });
  t.like(replacement.body, { tree_details: [{ attribution: "\ufffd" }] });
});
