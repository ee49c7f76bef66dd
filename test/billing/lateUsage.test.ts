import type { ExecutionContext } from "ava";
import { z } from "zod";
import { listMeterEvents } from "../../db/billing/meterEventReports.ts";
import { drainUsage } from "../../services/billing/drainUsage.ts";
import { resolveBillingCycle } from "../../services/billing/resolveBillingCycle.ts";
import type { SendResult } from "../../domain/billing/decideNextStep.ts";
import { needsAttention } from "../../domain/billing/decideNextStep.ts";
import { readJson, runImpact } from "../cli/runImpact.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { setUpBilling } from "./billingSetup.ts";

const test = testWithDatabase();

const DAY = 86_400;
const LATE = "delivered after its billing period ended; may not be on any invoice";

const events = z.array(z.looseObject({ account_id: z.string() }));

/** An organization with usage of a month's last day but one that Stripe has refused, and the means to get on with it. */
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
    /** Has the subscription's present period mirrored, as a refund does. */
    mirror: () => resolveBillingCycle(deps, stream.accountId, "live", "tree"),
    impact: (...args: readonly string[]) =>
      runImpact(args, {
        env: {
          DATABASE_URL: t.context.databaseUrl,
          STRIPE_SECRET_KEY: double.secretKey,
          STRIPE_API_BASE: double.url,
        },
        clock: deps.clock,
      }),
    /** Sends what waits; whether a person is told. */
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
    const { id, stream, impact, mirror, pass, send, retryFailed, billed, recorded } = scene;
    if (when === "before") {
      await mirror();
    }
    pass(3 * DAY);
    if (when === "after") {
      await mirror();
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
    `usage of a period that Stripe told ${String(when)} its end is marked and listed when it is delivered late`,
});
test(isLate, "before");
test(isLate, "after");

test("usage that is delivered late within its period is nothing to look at", async (t) => {
  const { mirror, pass, send, retryFailed, listLate } = await setUp(t);
  await mirror();
  pass(DAY);
  await retryFailed();

  t.false(await send());
  t.deepEqual(await listLate(), []);
});

test("usage of a period that ended within the hour is not late, however old it is", async (t) => {
  const { register, mirror, pass, send, listLate } = await setUp(t);
  pass(2 * DAY - 7200);
  await register(1);
  await mirror();
  pass(7200 + 3500);

  t.false(await send());
  t.deepEqual(await listLate(), []);
});

test("Stripe is not asked for a period that is not mirrored", async (t) => {
  const { double, pass, send, retryFailed, listLate } = await setUp(t);
  pass(3 * DAY);
  await retryFailed();
  const before = double.control.calls().length;

  t.false(await send());

  t.is(double.control.calls().length, before + 1);
  t.deepEqual(await listLate(), []);
});

test("usage retry warns of usage whose billing period has ended", async (t) => {
  const { mirror, impact, pass, stream } = await setUp(t);
  await mirror();
  pass(3 * DAY);

  const run = await impact("usage", "retry", "--org", stream.accountId);

  t.is(run.exitCode, 0, run.stderr);
  t.regex(run.stderr, /The billing period of event \d+ has ended: .* any invoice/u);
});
