import { z } from "zod";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import { callDouble } from "../../stripeDouble/doubleScene.ts";
import { testWithDatabase } from "../../support/database.ts";
import { startStoreApi, startTwoStoreApis } from "../startStoreApi.ts";
import { readStoreState } from "../storeState.ts";

import { DAY_SECONDS, stageTopUps } from "../balance/topUpScene.ts";

const test = testWithDatabase();

test("a repeated Idempotency-Key returns the same page, also at the same time and at another process", async (t) => {
  const { control, double, store, topUp, ...context } = await stageTopUps(t);
  const apiOf = await startTwoStoreApis(t, context);
  const headers = { "Idempotency-Key": "june" };
  const body = { amount_dollars: 20 };
  // Stripe rejects the requests that arrive meanwhile.
  control.addFault({ kind: "slow", delayMs: 300, path: "/v1/checkout/sessions" });

  const responses = await Promise.all(
    Array.from({ length: 10 }, (_, index) =>
      apiOf(index).post("/app/api/topup", { ...store.live, ...headers }, body),
    ),
  );

  const texts = new Set(responses.map(({ text }) => text));
  t.is(texts.size, 1);
  t.is(responses.filter((each) => !each.headers.has("Idempotent-Replayed")).length, 1);
  const sessions = await callDouble(double, "GET", "/v1/checkout/sessions");
  t.is(z.array(z.unknown()).parse(sessions.body["data"]).length, 1);
  const before = control.calls().length;
  control.advanceClock({ seconds: 40 * DAY_SECONDS });
  t.true(texts.has((await topUp(body, headers)).text));
  t.is(control.calls().length, before);
  t.like(await topUp({ amount_dollars: 21 }, headers), { status: 400 });
  t.false(texts.has((await topUp(body)).text));
});

for (const fault of [
  { kind: "server_error" },
  { kind: "server_error_saved" },
  { kind: "drop", applied: true },
  { kind: "rate_limit" },
  { kind: "broken_json" },
  { kind: "respond", status: 401, body: { error: { type: "invalid_request_error" } } },
] as const) {
  test(`if Stripe fails (${fault.kind}), nothing is stored, and a retry creates a page`, async (t) => {
    const { db, control, store, topUp } = await stageTopUps(t);
    // As often as Stripe is asked for one request.
    control.addFault({ times: 3, ...fault, path: "/v1/checkout/sessions" });
    const headers = { "Idempotency-Key": crypto.randomUUID() };

    const failed = await topUp({ amount_dollars: 5 }, headers);

    t.like(failed, { status: 503, body: { code: "OVERLOADED" } });
    t.is(failed.headers.get("Retry-After"), "1");
    t.like(await readStoreState(db, store.id), { entries: 0, responses: 0 });
    control.clearFaults();
    control.advanceClock({ seconds: 60 });
    t.is((await topUp({ amount_dollars: 5 }, headers)).status, 200);
  });
}

test("what cannot be paid is a 400 that says why", async (t) => {
  const { api, control, store, topUp } = await stageTopUps(t);
  const range = /^amount_dollars: must be a number of US dollars from 0\.5 to 999999\.99 with/u;
  for (const [body, message] of [
    [{}, /^amount_dollars: required$/u],
    [{ amount_dollars: 0.49 }, range],
    [{ amount_dollars: 5.001 }, range],
    [{ amount_dollars: 1_000_000 }, range],
    [{ amount_dollars: 5, currency: "EUR" }, /^currency: /u],
    [{ amount_dollars: 5, success_url: "javascript:alert(1)" }, /^success_url: must be an https/u],
    [{ amount_dollars: 5, cancel_url: "example.com" }, /^cancel_url: must be an https/u],
    [{ amount_dollars: 5, idempotency_key: "k" }, /Idempotency-Key/u],
  ] as const) {
    const response = await topUp(body);
    t.like(response, { status: 400, body: { code: "INVALID_PARAMETER" } });
    t.regex(z.string().parse(response.body["error"]), message);
  }
  t.like(await api.post("/app/api/topup", store.test, { amount_dollars: 5 }), {
    status: 400,
    body: { error: "test keys spend nothing, so they have no balance to top up" },
  });
  t.deepEqual(control.calls(), []);

  control.addFault({
    kind: "respond",
    path: "/v1/checkout/sessions",
    status: 400,
    body: { error: { type: "invalid_request_error", code: "amount_too_small", message: "Low." } },
  });
  t.like(await topUp({ amount_dollars: 5 }), {
    status: 400,
    body: { error: "amount_dollars: refused by Stripe: Low." },
  });
});

test("without Stripe, and with a key of another account, no page is created", async (t) => {
  const { db, control, store, stripe, topUp } = await stageTopUps(t);
  const withoutStripe = await startStoreApi(t, { db });
  t.like(await withoutStripe.post("/app/api/topup", store.live, { amount_dollars: 5 }), {
    status: 400,
    body: {
      code: "INVALID_PARAMETER",
      error: "payments are not set up here; ask the operator to top up the balance",
    },
  });
  t.is((await topUp({ amount_dollars: 5 })).status, 200);
  control.changeSettings({ accountId: "acct_other" });
  const withOtherKey = await startStoreApi(t, { db, billing: createBilling({ db, stripe }) });
  t.is((await withOtherKey.post("/app/api/topup", store.live, { amount_dollars: 5 })).status, 503);
});
