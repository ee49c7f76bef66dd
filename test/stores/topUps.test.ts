import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import { callDouble } from "../stripeDouble/callDouble.ts";
import { SERVICE } from "../../modules/accounts/audit.rules.ts";
import { readDeployment } from "../../modules/billing/deployment.sql.ts";
import { updateStore } from "../../modules/stores/manageStores.ts";
import { impactOf } from "../cli/runImpact.ts";
import { testWithDatabase } from "../support/database.ts";
import { readStoreState } from "./storeState.ts";
import { rowsIn, startStoreApi, startTwoStoreApis } from "./startStoreApi.ts";
import { DAY_SECONDS, stageTopUps } from "./topUpScene.ts";

// Serial, because a test processes every pending event of the file's database.
const test = testWithDatabase().serial;

test("a paid page credits the balance once, whatever is repeated, and names the payment", async (t) => {
  const { db, control, double, store, topUp, pay, process, compare, entries, ...setup } =
    await stageTopUps(t);
  const pages = { success_url: "https://app.example/?id={CHECKOUT_SESSION_ID}" };

  const created = await topUp({ amount_dollars: 20.5, currency: "USD", ...pages });

  const sessionId = z.string().parse(created.body["reference"]);
  const checkout_url = `https://checkout.stripe.com/c/pay/${sessionId}`;
  t.like(created.body, { status: "success", amount_dollars: 20.5, checkout_url });
  const { id: deploymentId } = await readDeployment(db);
  t.like(Object.fromEntries(new URLSearchParams(control.calls().at(-1)?.form)), {
    success_url: pages.success_url,
    cancel_url: `https://${store.domain}/`,
    client_reference_id: store.id,
    "metadata[impact_deployment]": deploymentId,
    "payment_intent_data[description]": `Top-up of ${store.domain}`,
  });
  await process();
  t.is(await compare(), 0);
  t.deepEqual(await entries(), []);

  const type = await pay(sessionId);
  await process();
  await control.announce({ type, objectId: sessionId });
  await process();

  t.is(await compare(), 0);
  t.deepEqual(await entries(), [{ kind: "topup", amountCents: 2050, reference: sessionId }]);
  t.like(await readStoreState(db, store.id), { balance: 2050, entries: 1, brokenLinks: 0 });
  const shown = await setup.api.get("/app/api/balance", store.live);
  t.like(shown.body, { balance_cents: 2050, entries: [{ reference: sessionId }] });
  const ledger = await impactOf(t)("export", "balance", "--org", store.domain);
  t.regex(ledger.stdout, new RegExp(`topup,.*2050.*${sessionId},Stripe payment pi_`, "u"));
  const audit = await impactOf(t)("audit", "list", "--org", store.domain, "--json");
  t.regex(audit.stdout, new RegExp(`"store\\.topup"[^]*"reference": ?"${sessionId}"`, "u"));
  t.deepEqual(double.control.problems(), []);
});

test("records beside a payment page have times of their own, also while the clock stands still", async (t) => {
  const { api, store, enter, topUp } = await stageTopUps(t);
  await enter(10_000, "invoice");
  const plant = () => api.post("/app/api/plant", store.live, { trees: 1 });
  for (let round = 0; round < 5; round += 1) {
    const together = [plant(), topUp({ amount_dollars: 5 }), plant(), topUp({ amount_dollars: 6 })];
    for (const { status } of await Promise.all(together)) {
      t.is(status, 200);
    }
  }

  const { body } = await api.get("/app/api/plant", store.live);
  const times = rowsIn(body, "trees").map(({ created_at }) => String(created_at));
  t.is(times.length, 10);
  t.deepEqual(times, [...new Set(times)].toSorted().toReversed());
});

test("webhooks, comparisons and an operator at the same time credit a payment once", async (t) => {
  const { db, store, begin, pay, enter, process, compare } = await stageTopUps(t);
  for (let round = 0; round < 5; round += 1) {
    const sessionId = await begin(7);
    await pay(sessionId);

    await Promise.all([process(), compare(), process(), compare(), enter(700, sessionId)]);
  }

  t.like(await readStoreState(db, store.id), { balance: 3500, entries: 5, brokenLinks: 0 });
});

test("payments whose webhooks never arrived are credited at night, for a month", async (t) => {
  const { control, store, begin, compare } = await stageTopUps(t);
  // Stripe lists at most a hundred on a page.
  for (let paid = 0; paid < 101; paid += 1) {
    control.payCheckout({ sessionId: await begin(1) });
  }
  await begin(6);

  t.is(await compare(), 101);
  t.is(await compare(), 0);

  t.like(await readStoreState(t.context.db, store.id), { balance: 10_100, entries: 101 });
  control.payCheckout({ sessionId: await begin(7) });
  control.advanceClock({ seconds: 31 * DAY_SECONDS });
  t.is(await compare(), 0);
});

test("a delayed payment is credited when it succeeds, and one that fails is not", async (t) => {
  const { control, begin, pay, process, compare, entries } = await stageTopUps(t);
  const [succeeding, failing] = [await begin(5), await begin(6)];
  await pay(succeeding, true);
  await pay(failing, true);
  await process();
  await compare();
  t.deepEqual(await entries(), []);

  control.advanceClock({ seconds: 5 * DAY_SECONDS });
  for (const [sessionId, succeeds] of [
    [succeeding, true],
    [failing, false],
  ] as const) {
    const type = control.settleCheckout({ sessionId, succeeds });
    await control.announce({ type, objectId: sessionId });
  }
  await process();

  t.deepEqual(await entries(), [{ kind: "topup", amountCents: 500, reference: succeeding }]);
  t.is(await compare(), 0);
});

test("sessions of other programs, of other deployments and of nobody change nothing", async (t) => {
  const { control, store, createForeign, begin, pay, process, compare, entries, failed } =
    await stageTopUps(t);
  await pay(await createForeign({}));
  const otherDeployment = { "metadata[impact_deployment]": crypto.randomUUID() };
  await pay(await createForeign({ client_reference_id: store.id, ...otherDeployment }));
  const objectId = await begin(5);
  control.advanceClock({ seconds: DAY_SECONDS });
  await control.announce({ type: "checkout.session.expired", objectId });

  await process();

  t.is(await compare(), 0);
  t.deepEqual(await entries(), []);
  t.deepEqual(failed, []);
});

const ABSENT = /for the store .*, which does not exist\. Run impact store topup/u;
for (const [what, currency, isOfStore, reason] of [
  ["that is no amount in USD", "eur", true, /paid 700 of the currency eur/u],
  ["for a store that does not exist", "usd", false, ABSENT],
] as const) {
  test(`a payment ${what} fails at once and at night, until an operator's entry settles it`, async (t) => {
    const { db, store, createForeign, pay, enter, process, compare, entries, failed } =
      await stageTopUps(t);
    const { id: deploymentId } = await readDeployment(db);
    const sessionId = await createForeign({
      client_reference_id: isOfStore ? store.id : crypto.randomUUID(),
      "metadata[impact_deployment]": deploymentId,
      "line_items[0][price_data][currency]": currency,
    });
    await pay(sessionId);
    await process();

    t.regex(failed[0]?.reason ?? "", reason);
    await t.throwsAsync(compare(), { message: /^1 payment of stores could not be credited: / });
    await enter(810, sessionId);
    t.is(await compare(), 0);
    t.deepEqual(await entries(), [{ kind: "topup", amountCents: 810, reference: sessionId }]);
  });
}

test("an event waits while Stripe is down, and fails if Stripe does not have its session", async (t) => {
  const { control, begin, pay, process, entries, failed } = await stageTopUps(t);
  const sessionId = await begin(5);
  const path = `/v1/checkout/sessions/${sessionId}`;
  control.addFault({ kind: "server_error", method: "GET", path });
  control.addFault({ kind: "drop", method: "GET", path });
  await pay(sessionId);
  await control.announce({ type: "checkout.session.completed", objectId: "cs_unknown" });

  for (const passed of [0, 60, 60]) {
    control.advanceClock({ seconds: passed });
    t.deepEqual(await entries(), []);
    await process();
  }

  t.is((await entries()).length, 1);
  t.is(failed[0]?.reason, "Stripe has no Checkout session cs_unknown.");
});

test("an uninstalled store keeps what it paid, and gets it again if its ledger is restored to before", async (t) => {
  const { db, clock, store, begin, pay, process, compare } = await stageTopUps(t);
  const sessionId = await begin(5);
  await updateStore({ db, clock, actor: SERVICE }, store.id, { isInstalled: false });
  await pay(sessionId);
  await process();
  t.is((await readStoreState(db, store.id)).balance, 500);
  await t.context.owner.transaction(async (transaction) => {
    for (const statement of [
      sql.typeAlias("void")`ALTER TABLE balance_entry DISABLE TRIGGER USER`,
      sql.typeAlias("void")`DELETE FROM balance_entry WHERE account_id = ${store.id}`,
      sql.typeAlias("void")`ALTER TABLE balance_entry ENABLE TRIGGER USER`,
      sql.typeAlias("void")`UPDATE store SET balance_cents = 0 WHERE account_id = ${store.id}`,
    ]) {
      await transaction.query(statement);
    }
  });

  t.is(await compare(), 1);
  t.is(await compare(), 0);
  t.like(await readStoreState(db, store.id), { balance: 500, entries: 1 });
});

test("a repeated Idempotency-Key returns the same page, also at the same time and at another process", async (t) => {
  const { control, double, store, topUp, ...context } = await stageTopUps(t);
  const apiOf = await startTwoStoreApis(t, context);
  const headers = { "Idempotency-Key": "june" };
  const body = { amount_dollars: 20 };
  // Stripe rejects the requests that arrive meanwhile.
  control.changeSettings({ latencyMs: 300 });

  const send = (index: number) =>
    apiOf(index).post("/app/api/topup", { ...store.live, ...headers }, body);
  const responses = await Promise.all(Array.from({ length: 10 }, (_, index) => send(index)));

  const texts = new Set(responses.map(({ text }) => text));
  t.is(texts.size, 1);
  t.is(responses.filter(({ replayed }) => replayed === null).length, 1);
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
  { kind: "server_error_saved" },
  { kind: "drop", applied: true },
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
  const low = { error: "amount_dollars: refused by Stripe: Low." };
  t.like(await topUp({ amount_dollars: 5 }), { status: 400, body: low });
});

test("without Stripe, and with a key of another account, no page is created", async (t) => {
  const { db, control, store, stripe, topUp } = await stageTopUps(t);
  const withoutStripe = await startStoreApi(t, { db });
  const error = "payments are not set up here; ask the operator to top up the balance";
  t.like(await withoutStripe.post("/app/api/topup", store.live, { amount_dollars: 5 }), {
    status: 400,
    body: { code: "INVALID_PARAMETER", error },
  });
  t.is((await topUp({ amount_dollars: 5 })).status, 200);
  control.changeSettings({ accountId: "acct_other" });
  const withOtherKey = await startStoreApi(t, { db, billing: createBilling({ db, stripe }) });
  t.is((await withOtherKey.post("/app/api/topup", store.live, { amount_dollars: 5 })).status, 503);
});
