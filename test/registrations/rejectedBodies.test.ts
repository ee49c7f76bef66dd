import type { ExecutionContext } from "ava";
import { testWithDatabase } from "../support/database.ts";
import { eachKind, KIND_NAMES } from "../api/contract.ts";
import { startApiOf } from "../api/startStandaloneApi.ts";
import type { ApiResponse } from "../api/startStandaloneApi.ts";

const test = testWithDatabase();
const forBothKinds = eachKind(test);

const COUNT = "must be an integer of at least 1";
const UNICODE = "must be well-formed Unicode without NUL characters";

const LONG = "must be at most 1000 characters";
const UNPARSED = /^the body is not a valid JSON object: /u;
const DEEP = `{"count":1,"metadata":${'{"a":'.repeat(9000)}1${"}".repeat(9000)}}`;

/** The body and the whole message. A string is sent unchanged. test/records has the other values of each field. */
const REGISTRATIONS: readonly (readonly [unknown, string | RegExp])[] = [
  [undefined, "count: required"],
  [{}, "count: required"],
  [{ count: null }, "count: required"],
  [{ count: 0 }, `count: ${COUNT}`],
  ['{"count":1e400}', `count: ${COUNT}`],
  [{ count: 1, attribution: 1 }, "attribution: must be a string"],
  [{ count: 1, attribution: "a".repeat(1001) }, `attribution: ${LONG}`],
  ['{"count":1,"attribution":"\\ud800"}', `attribution: ${UNICODE}`],
  [{ count: 1, idempotency_key: 7 }, "idempotency_key: must be a string"],
  [{ count: 1, idempotency_key: "k".repeat(1001) }, `idempotency_key: ${LONG}`],
  [
    Buffer.from([...Buffer.from('{"count":1,"idempotency_key":"'), 0xff, ...Buffer.from('"}')]),
    "the body is not valid UTF-8",
  ],
  [{ count: 1, metadata: [] }, "metadata: must be a JSON object"],
  [
    { count: 1, metadata: { a: "x".repeat(64 * 1024) } },
    "metadata: must be at most 65536 bytes as JSON with all digits written out",
  ],
  [{ count: 1, metadata: { a: ["\0"] } }, `metadata.a.0: ${UNICODE}`],
  ['{"count":1,"metadata":{"__proto__":{"a":1}}}', "metadata.__proto__: is not an allowed name"],
  ...[
    "idempotencykey",
    "idempotency_keyy",
    "idempotencyKey",
    "idempotency-key",
    "Idempotency_Key",
    "IDEMPOTENCY KEY",
  ].map(
    (name) =>
      [
        { count: 1, [name]: "k", idempotency_key: "k" },
        `${name}: must be given as idempotency_key`,
      ] as const,
  ),
  [
    { count: 0, attribution: 1, quantity: 2, foo: 3 },
    `count: ${COUNT}; attribution: must be a string`,
  ],
  [[], "the body must be a JSON object"],
  [[{ count: 1 }], "the body must be a JSON object"],
  ["7", UNPARSED],
  ["null", UNPARSED],
  ['{"count":', UNPARSED],
  ['{"count":1,}', UNPARSED],
  // Deeper than any stack.
  ["[".repeat(60_000), UNPARSED],
  [DEEP, /^metadata\.a\.a.*: must not be nested deeper than 8 levels$/u],
];

/** Checks that what is sent is a 400 with the whole message, or one that matches a pattern. */
const rejects = async <Given>(
  t: ExecutionContext,
  send: (given: Given) => Promise<ApiResponse>,
  cases: readonly (readonly [Given, string | RegExp])[],
): Promise<void> => {
  for (const [given, message] of cases) {
    const { status, body } = await send(given);
    t.is(status, 400, String(message));
    if (typeof message === "string") {
      t.is(body["error"], message);
    } else {
      t.regex(String(body["error"]), message);
    }
  }
};

forBothKinds(
  "invalid registrations are rejected by field name and record nothing: the list is empty and the totals are 0",
  async (t, kind) => {
    const { path, total, month, details } = KIND_NAMES[kind];
    const { get, post } = await startApiOf(t);
    await rejects(t, (given) => post(path, given), REGISTRATIONS);
    t.deepEqual((await get(path)).body, { [total]: 0, [month]: 0, [details]: [] });
  },
);

const UUID = "00000000-0000-4000-8000-000000000000";

forBothKinds("invalid refunds are rejected by field name", async (t, kind) => {
  const { refundPath, idRequired } = KIND_NAMES[kind];
  const { post } = await startApiOf(t);
  await rejects<unknown>(t, (given) => post(refundPath, given), [
    [undefined, idRequired],
    [{ count: 0, foo: 1 }, idRequired],
    [{ id: true }, "id: must be a string"],
    [{ id: UUID, idempotencyKey: "k" }, "idempotencyKey: must be given as idempotency_key"],
    [{ id: UUID, count: 0 }, `count: ${COUNT}`],
    [{ id: UUID, count: 0.5 }, `count: ${COUNT}`],
    [{ id: UUID, reason: 1 }, "reason: must be a string"],
    [{ id: UUID, reason: "x".repeat(10_001) }, "reason: must be at most 10000 characters"],
    [{ id: UUID, reason: "\0" }, `reason: ${UNICODE}`],
    [[], "the body must be a JSON object"],
  ]);
});

const DATE = "must be a calendar date in the form YYYY-MM-DD";

forBothKinds(
  "an empty filter is no filter, and one that is not known is ignored",
  async (t, kind) => {
    const { path, details } = KIND_NAMES[kind];
    const { get, post } = await startApiOf(t);
    await post(path, { count: 1, attribution: "a" });

    for (const query of [
      "attribution_key=&without_attribution=&id=&id=&created_at=&end_at=&metadata=&first=&after=",
      "page=2&page=3&page_size=1&limit=0&starting_after=x&attribution=b&__proto__=a&=x&_=1&utm_id=x",
    ]) {
      const { status, headers, body } = await get(`${path}?${query}`);

      t.is(status, 200);
      t.like(body, { [details]: [{ attribution: "a" }] });
      t.false(headers.has("Link"));
    }
  },
);

forBothKinds("invalid filters are rejected by parameter name", async (t, kind) => {
  const { path } = KIND_NAMES[kind];
  const { call, key, get } = await startApiOf(t);
  const filters: readonly (readonly [string, string])[] = [
    [`id=${UUID}&id=${UUID}`, "id: must be given at most once"],
    ["created_at=2026-02-30", `created_at: ${DATE}`],
    ["end_at=2025-02-29", `end_at: ${DATE}`],
    ["end_at=2026-01-01&end_at=2026-01-02", "end_at: must be given at most once"],
    ["without_attribution=yes", "without_attribution: must be true or false"],
    ["without_attribution=true&attribution_key=a", "without_attribution: excludes attribution_key"],
    ["attribution_key=a&attribution_key=b", "attribution_key: must be given at most once"],
    ["attribution_key=%00", `attribution_key: ${UNICODE}`],
    ["metadata=x", "metadata: must be valid JSON"],
    ["metadata=[]", "metadata: must be a JSON object"],
    ['metadata={"__proto__":1}', "metadata.__proto__: is not an allowed name"],
    ["metadata={}&metadata={}", "metadata: must be given at most once"],
    ["page=1&page=2&id=x&id=y", "id: must be given at most once"],
    ["end_at=x&foo=1", `end_at: ${DATE}`],
    ["attribution_key=%ff", "the query string is not well-formed percent-encoded UTF-8"],
    ["attribution_key=%zz", "the query string is not well-formed percent-encoded UTF-8"],
  ];
  await rejects(t, (query) => get(`${path}?${query}`), filters);
  for (const [query] of filters) {
    t.is((await call("HEAD", `${path}?${query}`, { key })).status, 400, query);
  }
});
