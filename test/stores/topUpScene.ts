import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import { processProcessorEvents } from "../../modules/billing/processorEvents/processProcessorEvents.ts";
import type { FailedProcessorEvent } from "../../modules/billing/processorEvents/processProcessorEvents.ts";
import { connectStripe } from "../../modules/billing/stripe/createStripeProcessor.ts";
import { createWebhookReader } from "../../modules/billing/stripe/createWebhookReader.ts";
import { listBalanceEntries } from "../../modules/stores/balances.sql.ts";
import { creditTopUp, creditTopUps } from "../../modules/stores/creditTopUps.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { callDouble } from "../stripeDouble/callDouble.ts";
import { startStripeDouble } from "../stripeDouble/startStripeDouble.ts";
import type { DatabaseTest } from "../support/database.ts";
import { changeTestBalance, createTestStore, startStoreApi } from "./startStoreApi.ts";

const SECRET = "whsec_of_the_tests";
export const DAY_SECONDS = 86_400;

const never = new AbortController().signal;

/** Serves both interfaces beside a double of Stripe that shares the clock, for a new store. */
export const stageTopUps = async (t: DatabaseTest) => {
  const { db } = t.context;
  await db.query(sql.typeAlias("void")`DELETE FROM processor_event`);
  const double = await startStripeDouble(t);
  const { clock, control } = double;
  control.holdClock({ second: Date.UTC(2026, 4, 15, 12) / 1000 });
  const stripe = connectStripe({ ...double.stripe, timeoutMs: 60_000 });
  const billing = createBilling({ db, stripe });
  const context = { db, clock, billing };
  const standalone = await startStandaloneApi(t, {
    db,
    clock,
    readStripeWebhook: createWebhookReader([SECRET]),
  });
  control.setWebhook({ url: `${standalone.url}/webhooks/stripe`, secret: SECRET });
  const api = await startStoreApi(t, context);
  const store = await createTestStore(db);
  const failed: FailedProcessorEvent[] = [];

  const topUp = (body: object, headers: Readonly<Record<string, string>> = {}) =>
    api.post("/app/api/topup", { ...store.live, ...headers }, body);

  return {
    ...context,
    api,
    control,
    double,
    stripe,
    store,
    topUp,
    failed,
    /** Creates a payment page, and returns the id of its session. */
    begin: async (dollars: number): Promise<string> => {
      const { status, text, body } = await topUp({ amount_dollars: dollars });
      t.is(status, 200, text);
      return z.string().parse(body["reference"]);
    },
    /** Pays a page, and announces it. */
    pay: async (sessionId: string, isDelayed = false): Promise<string> => {
      const type = control.payCheckout({ sessionId, isDelayed });
      t.is(await control.announce({ type, objectId: sessionId }), 200);
      return type;
    },
    /** Adds an operator's entry. */
    enter: (amountCents: number, reference: string) =>
      changeTestBalance(db, store.id, amountCents, { reference, clock }),
    /** Processes the due events, as a worker does. */
    process: () =>
      processProcessorEvents(
        {
          ...context,
          observeFailedEvent: (event) => failed.push(event),
          observeDelayedEvent: () => undefined,
          creditCheckout: (session) => creditTopUp(context, session),
        },
        never,
      ),
    compare: () => creditTopUps(context, never),
    entries: async () =>
      (await listBalanceEntries(db, store.id, { after: null, limit: 10 })).map(
        ({ kind, amount_cents: amountCents, reference }) => ({ kind, amountCents, reference }),
      ),
    /** Creates a session at Stripe as another program does. */
    createForeign: async (parameters: Readonly<Record<string, string>>): Promise<string> => {
      const { status, body } = await callDouble(double, "POST", "/v1/checkout/sessions", {
        mode: "payment",
        success_url: "https://example.com/",
        "line_items[0][quantity]": "1",
        "line_items[0][price_data][currency]": "usd",
        "line_items[0][price_data][unit_amount]": "700",
        "line_items[0][price_data][product_data][name]": "A book",
        ...parameters,
      });
      t.is(status, 200);
      return z.string().parse(body["id"]);
    },
  };
};
