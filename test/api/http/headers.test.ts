import { startDonationApi } from "../../charities/donations/donationSetup.ts";
import { testWithDatabase } from "../../support/database.ts";
import { eachKind, idIn, KIND_NAMES } from "../contract.ts";
import { startApiOf } from "../startStandaloneApi.ts";
import { rawRequest } from "./rawRequest.ts";

const test = testWithDatabase();
const forBothKinds = eachKind(test);

test("every response says that it must not be stored and that its type is right", async (t) => {
  const { call, url, key } = await startApiOf(t);
  const body = { count: 1 };

  for (const [{ status, headers }, vary] of [
    [await call("POST", "/plant/trees", { key, body }), "Authorization"],
    [await call("GET", "/plant/trees", { key }), "Authorization, Accept"],
    [await call("HEAD", "/plant/trees", { key }), "Authorization, Accept"],
    [await call("GET", "/plant/trees?created_at=x", { key }), "Authorization"],
    [await call("POST", "/plant/trees", { key: "unknown", body }), "Authorization"],
  ] as const) {
    t.is(headers.get("Vary"), vary, String(status));
    t.is(headers.get("Cache-Control"), "no-store", String(status));
    t.is(headers.get("X-Content-Type-Options"), "nosniff", String(status));
  }
  for (const { headers } of [
    await call("GET", "/healthz"),
    await call("GET", "/unknown"),
    await call("PUT", "/plant/trees"),
  ]) {
    t.is(headers.get("Cache-Control"), "no-store");
    t.is(headers.get("X-Content-Type-Options"), "nosniff");
  }
  for (const bytes of [
    "nonsense\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nAccept: */*\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost: x\r\nExpect: nothing\r\nConnection: close\r\n\r\n",
  ]) {
    const response = await rawRequest(url, bytes);
    t.regex(response, /^Cache-Control: no-store\r$/mu);
    t.regex(response, /^X-Content-Type-Options: nosniff\r$/mu);
  }
});

/** A header that fetch sends as the UTF-8 bytes of the key. */
const keyed = (key: string) => ({
  headers: { "Idempotency-Key": Buffer.from(key, "utf8").toString("latin1") },
});

forBothKinds("the header Idempotency-Key and the field are the same key", async (t, kind) => {
  const { path } = KIND_NAMES[kind];
  const { call, key } = await startApiOf(t);
  const first = await call("POST", path, { key, body: { count: 2 }, ...keyed("order-1") });

  const byField = await call("POST", path, { key, body: { count: 2, idempotency_key: "order-1" } });
  const byBoth = await call("POST", path, {
    key,
    body: { count: 2, idempotency_key: "order-1" },
    ...keyed("order-1"),
  });
  const byHeader = await call("POST", path, {
    key,
    body: { count: 2, idempotency_key: "" },
    ...keyed("order-1"),
  });

  for (const replay of [byField, byBoth, byHeader]) {
    t.is(replay.headers.get("Idempotent-Replayed"), "true");
    t.is(idIn(replay.body, kind), idIn(first.body, kind));
  }
});

test("different keys in the header Idempotency-Key and the field are a 400 that records nothing", async (t) => {
  const { call, key } = await startApiOf(t);

  const { status, body } = await call("POST", "/plant/trees", {
    key,
    body: { count: 2, idempotency_key: "one" },
    ...keyed("other"),
  });

  t.is(status, 400);
  t.deepEqual(body, {
    error: "idempotency_key: must equal the header Idempotency-Key if both are given",
  });
  t.is((await call("GET", "/plant/trees", { key })).body["total_planted_trees"], 0);
});

const BODY = '{"count":1}';

const rejects = test.macro({
  exec: async (t, headers: string, error: RegExp) => {
    const { url, call, key } = await startApiOf(t);

    const response = await rawRequest(
      url,
      Buffer.from(
        `POST /plant/trees HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: ${key}\r\n` +
          `Content-Type: application/json\r\nContent-Length: ${BODY.length}\r\n${headers}\r\n\r\n${BODY}`,
        "latin1",
      ),
    );

    t.regex(response, /^HTTP\/1\.1 400 /u);
    t.regex(response, error);
    t.is((await call("GET", "/plant/trees", { key })).body["total_planted_trees"], 0);
  },
  title: (wrong = "") => `${wrong} in the header Idempotency-Key is a 400 that records nothing`,
});

test(
  "a key of 256 characters",
  rejects,
  `Idempotency-Key: ${"k".repeat(1001)}`,
  /Idempotency-Key: must be at most 1000 characters/u,
);
test("text that is not UTF-8", rejects, "Idempotency-Key: \xff\xfe", /must be well-formed UTF-8/u);
test(
  "a second key",
  rejects,
  "Idempotency-Key: one\r\nIdempotency-Key: two",
  /must be given at most once/u,
);

test("donations and their refunds honor the header Idempotency-Key", async (t) => {
  const { call, test: key } = await startDonationApi(t);
  const donation = { key, body: { amount_cents: 500, ein: "530196605" }, ...keyed("gift-1") };
  const donated = await call("POST", "/charities/donate", donation);
  const donatedAgain = await call("POST", "/charities/donate", donation);
  t.is(donatedAgain.headers.get("Idempotent-Replayed"), "true");
  t.is(donatedAgain.body["donation_id"], donated.body["donation_id"]);

  const refund = { key, body: { id: donated.body["donation_id"] }, ...keyed("refund-1") };
  t.is((await call("POST", "/refund/donations", refund)).status, 200);
  const refundedAgain = await call("POST", "/refund/donations", refund);

  t.is(refundedAgain.headers.get("Idempotent-Replayed"), "true");
  t.like(refundedAgain.body, { refunded_amount_cents: 500, total_donations: 0 });
});
