import type { ExecutionContext } from "ava";
import { z } from "zod";
import { listMeterEvents } from "../../../db/billing/meterEventReports.ts";
import { drainUsage } from "../../../services/billing/sending/drainUsage.ts";
import { resolveBillingCycle } from "../../../services/billing/resolveBillingCycle.ts";
import type { SendResult } from "../../../domain/billing/decideNextStep.ts";
import { needsAttention } from "../../../domain/billing/decideNextStep.ts";
import { readJson, runImpact } from "../../cli/runImpact.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { setUpBilling } from "../billingSetup.ts";

const test = testWithDatabase();

const DAY = 86_400;
const LATE = "delivered after its billing period ended; may not be on any invoice";

const events = z.array(z.looseObject({ account_id: z.string() }));

/** Sets up usage from two days before a period's end, which Stripe has refused. */
const setUp = async (t: ExecutionContext<DatabaseContext>) => {
  const setup = await setUpBilling(t);
  const { deps, stream, register, drain, pass, double } = setup;
  pass(29 * DAY);
  const id = await register(5);
  double.control.addFault({
    kind: "respond",
    status: 400,
    body: { error: { type: "invalid_request_error", message: "Not now." } },
  });
  await drain();
  return {
    ...setup,
    id,
    /** Stores the subscription's current period, as a refund does. */
    storePeriod: () => resolveBillingCycle(deps, stream.accountId, "live", "tree"),
    impact: (...args: readonly string[]) =>
      runImpact(args, {
        env: {
          DATABASE_URL: t.context.databaseUrl,
          STRIPE_SECRET_KEY: double.secretKey,
          STRIPE_API_BASE: double.url,
        },
        clock: deps.clock,
      }),
    /** Sends the waiting usage and returns whether that needs an operator. */
    send: async (): Promise<boolean> => {
      const results: SendResult[] = [];
      await drainUsage(deps, stream, {
        signal: new AbortController().signal,
        onResult: (result) => results.push(result),
      });
      return results.some(needsAttention);
    },
    listLate: () =>
      listMeterEvents(deps.db, { state: "late", accountId: stream.accountId, limit: 10 }),
  };
};

const isLate = test.macro({
  exec: async (t, when: "before" | "after") => {
    const scene = await setUp(t);
    const { id, stream, impact, storePeriod, pass, send, retryFailed, billed, recorded } = scene;
    if (when === "before") {
      await storePeriod();
    }
    pass(3 * DAY);
    if (when === "after") {
      await storePeriod();
    }
    await retryFailed();

    t.true(await send());

    t.deepEqual(billed(), await recorded());
    const late = ["usage", "list", "--state", "late", "--json"];
    for (const run of [await impact(...late), await impact(...late, "--org", stream.accountId)]) {
      const listed = events.parse(readJson(run));
      const own = listed.filter(({ account_id: accountId }) => accountId === stream.accountId);
      t.is(own.length, 1);
      t.like(own[0], { state: "delivered", quantity: 5, last_error: LATE });
    }
    t.true((await impact("usage", "show", id)).stdout.includes(LATE));
  },
  title: (_, when) =>
    `usage that is delivered late is marked and listed if its period was read ${String(when)} its end`,
});
test(isLate, "before");
test(isLate, "after");

test("usage that is delivered before its period ends is not late", async (t) => {
  const { storePeriod, pass, send, retryFailed, listLate } = await setUp(t);
  await storePeriod();
  pass(DAY);
  await retryFailed();

  t.false(await send());
  t.deepEqual(await listLate(), []);
});

test("usage of a period that ended less than an hour ago is not late, however old it is", async (t) => {
  const { register, storePeriod, pass, send, listLate } = await setUp(t);
  pass(2 * DAY - 7200);
  await register(1);
  await storePeriod();
  pass(7200 + 3500);

  t.false(await send());
  t.deepEqual(await listLate(), []);
});

test("Stripe is not queried for a period that is not stored", async (t) => {
  const { double, pass, send, retryFailed, listLate } = await setUp(t);
  pass(3 * DAY);
  await retryFailed();
  const before = double.control.calls().length;

  t.false(await send());

  t.is(double.control.calls().length, before + 1);
  t.deepEqual(await listLate(), []);
});

test("usage retry warns about usage whose billing period has ended", async (t) => {
  const { storePeriod, impact, pass, stream } = await setUp(t);
  await storePeriod();
  pass(3 * DAY);

  const run = await impact("usage", "retry", "--org", stream.accountId);

  t.is(run.exitCode, 0, run.stderr);
  t.regex(run.stderr, /The billing period of event \d+ has ended: .* any invoice/u);
});
