import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { SERVICE } from "../../../modules/accounts/audit.rules.ts";
import { readDeployment } from "../../../modules/billing/deployment.sql.ts";
import { changeBalance } from "../../../modules/stores/changeBalance.ts";
import { updateStore } from "../../../modules/stores/manageStores.ts";
import { runImpact } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import { readStoreState } from "../storeState.ts";

import { DAY_SECONDS, stageTopUps } from "./topUpScene.ts";

// Serial, because a test processes every pending event of the file's database.
const test = testWithDatabase().serial;

test("a paid page credits the balance once, whatever is repeated, and names the payment", async (t) => {
  const { db, control, double, store, topUp, process, compare, entries, ...setup } =
    await stageTopUps(t);
  const pages = { success_url: "https://app.example/?id={CHECKOUT_SESSION_ID}" };

  const created = await topUp({ amount_dollars: 20.5, currency: "USD", ...pages });

  const sessionId = z.string().parse(created.body["reference"]);
  t.like(created, {
    status: 200,
    body: {
      status: "success",
      amount_dollars: 20.5,
      checkout_url: `https://checkout.stripe.com/c/pay/${sessionId}`,
    },
  });
  const { id: deploymentId } = await readDeployment(db);
  const sent = Object.fromEntries(new URLSearchParams(control.calls().at(-1)?.form));
  t.like(sent, {
    success_url: pages.success_url,
    cancel_url: `https://${store.domain}/`,
    client_reference_id: store.id,
    "metadata[impact_deployment]": deploymentId,
    "payment_intent_data[description]": `Top-up of ${store.domain}`,
  });
  await process();
  t.is(await compare(), 0);
  t.deepEqual(await entries(), []);

  const type = control.payCheckout({ sessionId });
  for (const _ of [1, 2]) {
    t.is(await control.announce({ type, objectId: sessionId }), 200);
    await process();
  }

  t.is(await compare(), 0);
  t.deepEqual(await entries(), [{ kind: "topup", amountCents: 2050, reference: sessionId }]);
  t.like(await readStoreState(db, store.id), { balance: 2050, entries: 1, brokenLinks: 0 });
  const shown = await setup.api.get("/app/api/balance", store.live);
  t.like(shown.body, {
    balance_cents: 2050,
    entries: [{ kind: "topup", amount_cents: 2050, reference: sessionId }],
  });
  const env = { DATABASE_URL: t.context.databaseUrl };
  const ledger = await runImpact(["export", "balance", "--org", store.domain], { env });
  t.regex(ledger.stdout, new RegExp(`topup,.*2050.*${sessionId},Stripe payment pi_`, "u"));
  const audit = await runImpact(["audit", "list", "--org", store.domain, "--json"], { env });
  t.regex(audit.stdout, new RegExp(`"store\\.topup"[^]*"reference": ?"${sessionId}"`, "u"));
  t.deepEqual(double.control.problems(), []);
});

test("webhooks, comparisons and an operator at the same time credit a payment once", async (t) => {
  const { db, clock, control, store, begin, process, compare, entries } = await stageTopUps(t);
  for (let round = 0; round < 5; round += 1) {
    const sessionId = await begin(7);
    const type = control.payCheckout({ sessionId });
    await Promise.all([1, 2, 3].map(() => control.announce({ type, objectId: sessionId })));
    const operator = { db, clock, actor: SERVICE };
    const entry = { kind: "topup", storeId: store.id, amountCents: 700, note: "" } as const;

    await Promise.all([
      process(),
      compare(),
      process(),
      compare(),
      changeBalance(operator, { ...entry, reference: sessionId }),
    ]);
  }

  t.is((await entries()).length, 5);
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
  const { control, begin, process, compare, entries } = await stageTopUps(t);
  const [succeeding, failing] = [await begin(5), await begin(6)];
  for (const sessionId of [succeeding, failing]) {
    const type = control.payCheckout({ sessionId, isDelayed: true });
    await control.announce({ type, objectId: sessionId });
  }
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
  const { control, store, createForeign, process, compare, entries, failed, topUp } =
    await stageTopUps(t);
  const foreign = [
    await createForeign({}),
    await createForeign({
      client_reference_id: store.id,
      "metadata[impact_deployment]": crypto.randomUUID(),
    }),
  ];
  for (const sessionId of foreign) {
    const type = control.payCheckout({ sessionId });
    await control.announce({ type, objectId: sessionId });
  }
  const { body } = await topUp({ amount_dollars: 5 });
  control.advanceClock({ seconds: DAY_SECONDS });
  await control.announce({
    type: "checkout.session.expired",
    objectId: z.string().parse(body["reference"]),
  });

  await process();

  t.is(await compare(), 0);
  t.deepEqual(await entries(), []);
  t.deepEqual(failed, []);
});

test("a payment that is no amount in USD needs an operator, whose entry settles it", async (t) => {
  const { db, clock, control, store, createForeign, process, compare, entries, failed } =
    await stageTopUps(t);
  const { id: deploymentId } = await readDeployment(db);
  const sessionId = await createForeign({
    client_reference_id: store.id,
    "metadata[impact_deployment]": deploymentId,
    "line_items[0][price_data][currency]": "eur",
  });
  const type = control.payCheckout({ sessionId });
  await control.announce({ type, objectId: sessionId });
  await process();

  t.regex(failed[0]?.reason ?? "", /paid 700 of the currency eur/u);
  await t.throwsAsync(compare(), { message: /^1 payment of stores could not be credited: / });
  await changeBalance(
    { db, clock, actor: SERVICE },
    { kind: "topup", storeId: store.id, amountCents: 810, reference: sessionId, note: "EUR" },
  );
  t.is(await compare(), 0);
  t.deepEqual(await entries(), [{ kind: "topup", amountCents: 810, reference: sessionId }]);
});

test("a payment for a store that does not exist fails at once and at night, until a store has it", async (t) => {
  const { db, clock, control, store, createForeign, process, compare, failed } =
    await stageTopUps(t);
  const { id: deploymentId } = await readDeployment(db);
  const sessionId = await createForeign({
    client_reference_id: crypto.randomUUID(),
    "metadata[impact_deployment]": deploymentId,
  });
  await control.announce({ type: control.payCheckout({ sessionId }), objectId: sessionId });
  await process();

  t.regex(
    failed[0]?.reason ?? "",
    /paid 700 of the currency usd for the store .*, which does not exist\. Run impact store topup/u,
  );
  await t.throwsAsync(compare(), { message: /^1 payment of stores could not be credited: / });
  await changeBalance(
    { db, clock, actor: SERVICE },
    { kind: "topup", storeId: store.id, amountCents: 700, reference: sessionId, note: "" },
  );
  t.is(await compare(), 0);
});

test("an event about a session that Stripe does not have fails", async (t) => {
  const { control, process, failed } = await stageTopUps(t);
  await control.announce({ type: "checkout.session.completed", objectId: "cs_unknown" });
  await process();
  t.deepEqual(
    failed.map(({ reason }) => reason),
    ["Stripe has no Checkout session cs_unknown."],
  );
});

test("while Stripe is down, the event of a payment waits", async (t) => {
  const { control, begin, process, entries } = await stageTopUps(t);
  const sessionId = await begin(5);
  const path = `/v1/checkout/sessions/${sessionId}`;
  control.addFault({ kind: "server_error", method: "GET", path });
  control.addFault({ kind: "drop", method: "GET", path });
  await control.announce({ type: control.payCheckout({ sessionId }), objectId: sessionId });

  for (const passed of [0, 60, 60]) {
    control.advanceClock({ seconds: passed });
    t.deepEqual(await entries(), []);
    await process();
  }

  t.is((await entries()).length, 1);
});

test("a store that was uninstalled meanwhile keeps what it paid", async (t) => {
  const { db, clock, control, store, begin, process } = await stageTopUps(t);
  const sessionId = await begin(5);
  await updateStore({ db, clock, actor: SERVICE }, store.id, { isInstalled: false });
  await control.announce({ type: control.payCheckout({ sessionId }), objectId: sessionId });
  await process();
  t.like(await readStoreState(db, store.id), { balance: 500 });
});

test("a ledger that was restored to before the credit gets it again", async (t) => {
  const { control, store, begin, compare } = await stageTopUps(t);
  const sessionId = await begin(5);
  control.payCheckout({ sessionId });
  t.is(await compare(), 1);
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
  t.like(await readStoreState(t.context.db, store.id), { balance: 500, entries: 1 });
});
