import type { ExecutionContext } from "ava";
import { z } from "zod";
import { systemClock } from "../../domain/clock.ts";
import type { Clock } from "../../domain/clock.ts";
import type { Mode } from "../../domain/accounts.ts";
import { createBilling } from "../../providers/billing/createBilling.ts";
import { drainUsage } from "../../services/drainUsage.ts";
import { refundRegistration } from "../../services/refundRegistration.ts";
import { createRegistrationWriter } from "../../services/registrationWriter.ts";
import { startStripeDouble } from "../stripe/startStripeDouble.ts";
import type { StripeDouble } from "../stripe/startStripeDouble.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { readJson, runImpact } from "./runImpact.ts";
import type { Run } from "./runImpact.ts";

// One after the other: some of these retry what failed of everybody.
const test = testWithDatabase();

const UNKNOWN = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11";

const event = z.looseObject({
  meter_event_id: z.int().nullable(),
  state: z.string(),
  quantity: z.int(),
});

const results = z.array(
  z.strictObject({ id: z.string(), result: z.string(), reason: z.string().nullable() }),
);

type Scene = {
  readonly id: string;
  readonly double: StripeDouble;
  readonly impact: (...args: readonly string[]) => Promise<Run>;
  /** The same, when Stripe's sums lag no more. */
  readonly impactLater: (...args: readonly string[]) => Promise<Run>;
  /** The same, with settings that know nothing of Stripe. */
  readonly impactWithoutStripe: (...args: readonly string[]) => Promise<Run>;
  readonly register: (count: number, mode?: Mode) => Promise<string>;
  readonly refund: (registrationId: string, count: number) => Promise<unknown>;
  /** Sends what is ready, as a worker would, until nothing is or an event must wait. */
  readonly drain: (mode?: Mode) => Promise<void>;
  readonly failedEvents: () => Promise<readonly string[]>;
  readonly billed: () => number;
};

/** An organization on Stripe whose customer is unknown there, so that its live usage is refused. */
const setUp = async (t: ExecutionContext<DatabaseContext>): Promise<Scene> => {
  const { db, databaseUrl } = t.context;
  const double = await startStripeDouble();
  t.teardown(double.close);
  const stripe = { secretKey: double.secretKey, apiBase: double.url };
  const billing = createBilling({ db, stripe });
  await billing.prepare();
  const { id } = await createTestOrganization(db, {
    stripeCustomerId: `cus_${crypto.randomUUID().replaceAll("-", "")}`,
  });
  // Old enough to be sealed at once.
  const past: Clock = { now: () => new Date(Date.now() - 10_000) };
  const later: Clock = { now: () => new Date(Date.now() + 16 * 60 * 1000) };
  const writer = createRegistrationWriter({ db, clock: past });
  const env = {
    DATABASE_URL: databaseUrl,
    STRIPE_SECRET_KEY: double.secretKey,
    STRIPE_API_BASE: double.url,
  };
  const impact = (...args: readonly string[]): Promise<Run> => runImpact(args, { env });
  return {
    id,
    double,
    impact,
    impactLater: (...args) => runImpact(args, { env, clock: later }),
    impactWithoutStripe: (...args) => runImpact(args, { env: { DATABASE_URL: databaseUrl } }),
    register: async (count, mode = "live") => {
      const { registration } = await writer.register(registrationOf(id, { mode, count }));
      return registration.id;
    },
    refund: (registrationId, count) =>
      refundRegistration(
        { db, clock: systemClock, billing },
        { accountId: id, mode: "live", kind: "tree" },
        { id: registrationId, count, reason: null },
      ),
    drain: async (mode = "live") => {
      await drainUsage(
        { db, clock: systemClock, billing },
        { accountId: id, mode, meter: "tree" },
        { signal: new AbortController().signal, onResult: () => undefined },
      );
    },
    failedEvents: async () => {
      const run = await impact("usage", "list", "--state", "failed", "--org", id, "--json");
      return z
        .array(event)
        .parse(readJson(run))
        .map(({ meter_event_id: eventId }) => String(eventId));
    },
    billed: () => double.control.usage({}).reduce((sum, { value }) => sum + value, 0),
  };
};

const giveCustomer = async ({ double, impact, id }: Scene): Promise<void> => {
  const { customerId } = double.control.addCustomer({});
  await impact("org", "update", id, "--stripe-customer", customerId);
};

test.serial("usage list tells pending, failed and sent usage apart", async (t) => {
  const scene = await setUp(t);
  const states = async (...filter: readonly string[]): Promise<readonly string[]> => {
    const run = await scene.impact("usage", "list", "--org", scene.id, "--json", ...filter);
    t.is(run.exitCode, 0);
    return z
      .array(event)
      .parse(readJson(run))
      .map(({ state }) => state);
  };
  await scene.register(1, "test");
  t.deepEqual(await states("--state", "pending"), ["unsealed"]);
  t.deepEqual(await states("--state", "sent"), []);
  await scene.drain("test");
  await scene.register(3);
  await scene.drain();
  t.deepEqual(await states("--state", "pending"), []);
  t.deepEqual(await states("--state", "sent"), ["delivered"]);
  t.deepEqual(await states("--state", "failed"), ["rejected"]);
  t.deepEqual(await states(), ["rejected", "delivered"]);
  const human = await scene.impact("usage", "list", "--org", scene.id, "--limit", "1");
  t.is(human.stdout.trimEnd().split("\n").length, 2);
  t.regex(human.stdout, /No such customer/u);
  t.regex(human.stderr, /There are more than these 1/u);
});

test.serial(
  "usage show tells the facts, every sealing of the second and the workflows",
  async (t) => {
    const scene = await setUp(t);
    const registration = await scene.register(5);
    await scene.drain();
    await scene.refund(registration, 2);
    const run = await scene.impact("usage", "show", registration, "--json");
    t.is(run.exitCode, 0);
    const shown = z
      .looseObject({
        facts: z.array(z.looseObject({ quantity: z.int(), meter_event_id: z.int().nullable() })),
        meter_events: z.array(
          z.looseObject({
            identifier: z.string(),
            state: z.string(),
            attempts: z.int(),
            last_error: z.string().nullable(),
          }),
        ),
      })
      .parse(readJson(run));
    t.like(shown, {
      registration_id: registration,
      account_id: scene.id,
      count: 5,
      refunded_count: 2,
      workflows: {
        sender: `usage-sender/${scene.id}/live/tree`,
        refund: `refund-${registration}`,
      },
    });
    t.deepEqual(
      shown.facts.map(({ quantity }) => quantity),
      [5, -2],
    );
    const [sealing] = shown.meter_events;
    t.like(sealing, { state: "rejected", attempts: 1 });
    t.regex(sealing?.last_error ?? "", /No such customer/u);
    t.true(sealing?.identifier.startsWith(`u1:${scene.id}:live:tree:`));
    const human = await scene.impact("usage", "show", registration);
    t.regex(human.stderr, /impact usage retry \d+/u);
  },
);

test.serial(
  "a refused event is retried by its id when its cause is mended, and billed once",
  async (t) => {
    const scene = await setUp(t);
    const registration = await scene.register(4);
    await scene.drain();
    const [failed] = await scene.failedEvents();
    await giveCustomer(scene);
    const run = await scene.impact("usage", "retry", failed ?? "", "--json");
    t.is(run.exitCode, 0);
    t.deepEqual(readJson(run), [{ id: failed, result: "waiting", reason: null }]);
    await scene.drain();
    t.is(scene.billed(), 4);
    t.deepEqual(await scene.failedEvents(), []);
    const again = await scene.impact("usage", "retry", failed ?? "");
    t.is(again.exitCode, 1);
    t.regex(again.stdout, /superseded: there is nothing to retry/u);
    const byRegistration = await scene.impact("usage", "retry", registration);
    t.is(byRegistration.exitCode, 1);
    t.regex(byRegistration.stdout, /none of its usage has failed/u);
    t.is(scene.billed(), 4);
  },
);

test.serial(
  "a failed event is found by its registration, and with its refund it bills what is left",
  async (t) => {
    const scene = await setUp(t);
    const registration = await scene.register(7);
    await scene.drain();
    await scene.refund(registration, 3);
    await scene.drain();
    await giveCustomer(scene);
    const run = await scene.impact("usage", "retry", registration);
    t.is(run.exitCode, 0);
    await scene.drain();
    t.is(scene.billed(), 4);
  },
);

test.serial("one retry that fails does not stop the others, and the exit code tells", async (t) => {
  const scene = await setUp(t);
  await scene.register(2);
  await scene.drain();
  const [failed] = await scene.failedEvents();
  await giveCustomer(scene);
  const run = await scene.impact("usage", "retry", UNKNOWN, "999999999", failed ?? "", "--json");
  t.is(run.exitCode, 1);
  const told = results.parse(readJson(run));
  t.deepEqual(
    told.map(({ id, result }) => [id, result]),
    [
      [UNKNOWN, "failed"],
      ["999999999", "failed"],
      [failed, "waiting"],
    ],
  );
  t.regex(run.stderr, /2 of 3 could not be retried/u);
  const onlyUnknown = await scene.impact("usage", "retry", UNKNOWN);
  t.is(onlyUnknown.exitCode, 3);
});

test.serial("--org retries what failed of the organization and nobody else's", async (t) => {
  const ours = await setUp(t);
  const others = await setUp(t);
  for (const scene of [ours, others]) {
    await scene.register(1);
    await scene.drain();
  }
  await giveCustomer(ours);
  const run = await ours.impact("usage", "retry", "--org", ours.id);
  t.is(run.exitCode, 0);
  t.deepEqual(await ours.failedEvents(), []);
  t.is((await others.failedEvents()).length, 1);
  const nothing = await ours.impact("usage", "retry", "--org", ours.id);
  t.is(nothing.exitCode, 0);
  t.regex(nothing.stderr, /nothing to retry/u);
});

test.serial(
  "--all retries what failed of everybody, each event once though it may fail again",
  async (t) => {
    const scene = await setUp(t);
    await scene.register(1);
    await scene.drain();
    const run = await scene.impact("usage", "retry", "--all", "--json");
    t.is(run.exitCode, 0);
    t.true(results.parse(readJson(run)).every(({ result }) => result === "waiting"));
    await scene.drain();
    t.is((await scene.failedEvents()).length, 1);
  },
);

/** An attempt that reached nobody knows where, and a refusal after it. */
const leaveUnknown = async (scene: Scene): Promise<string> => {
  await giveCustomer(scene);
  // Under a customer that exists the first answer is lost; then the event is refused for good.
  scene.double.control.addFault({ kind: "drop" });
  scene.double.control.addFault({
    kind: "answer",
    status: 400,
    body: { error: { type: "invalid_request_error", message: "Refused for the test." } },
  });
  await scene.register(6);
  await scene.drain();
  await scene.drain();
  const [failed = ""] = await scene.failedEvents();
  return failed;
};

test.serial("where nobody knows whether usage arrived, Stripe's own record decides", async (t) => {
  const scene = await setUp(t);
  const failed = await leaveUnknown(scene);
  const early = await scene.impact("usage", "retry", failed);
  t.is(early.exitCode, 1);
  t.regex(early.stdout, /may lag for another 15 minutes/u);
  const run = await scene.impactLater("usage", "retry", failed, "--json");
  t.is(run.exitCode, 0);
  t.deepEqual(readJson(run), [{ id: failed, result: "waiting", reason: null }]);
  await scene.drain();
  t.is(scene.billed(), 6);
});

test.serial("where nobody can be asked a person must say what became of it", async (t) => {
  const scene = await setUp(t);
  const failed = await leaveUnknown(scene);
  const refused = await scene.impactWithoutStripe("usage", "retry", failed);
  t.is(refused.exitCode, 1);
  t.regex(refused.stdout, /cannot be asked/u);
  t.deepEqual(await scene.failedEvents(), [failed]);
  const run = await scene.impactWithoutStripe("usage", "retry", failed, "--assume", "delivered");
  t.is(run.exitCode, 0);
  await scene.drain();
  t.is(scene.billed(), 0);
  t.deepEqual(await scene.failedEvents(), []);
});

test.serial(
  "usage reconcile agrees after a drain and ends with 1 where the processor has more",
  async (t) => {
    const scene = await setUp(t);
    await giveCustomer(scene);
    await scene.register(9);
    await scene.drain();
    const tomorrow = new Date(Date.now() + 24 * 60 * 60 * 1000).toISOString();
    const args = ["usage", "reconcile", "--org", scene.id, "--to", tomorrow];
    const agreed = await scene.impact(...args);
    t.is(agreed.exitCode, 0, agreed.stderr);
    t.regex(agreed.stdout, /live +tree +stripe +cus_\S+ +9 +9 +0/u);
    // Somebody else reports usage for the same customer.
    const customer = scene.double.control.usage({})[0]?.customer ?? "";
    await fetch(`${scene.double.url}/v1/billing/meter_events`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${scene.double.secretKey}`,
        "content-type": "application/x-www-form-urlencoded",
      },
      body: new URLSearchParams({
        event_name: "impact_tree_planted",
        "payload[stripe_customer_id]": customer,
        "payload[value]": "5",
      }),
    });
    const drifted = await scene.impact(...args, "--json");
    t.is(drifted.exitCode, 1);
    t.like(readJson(drifted), {
      streams: [{ delivered: 9, processor_quantity: 14, drift: 5 }],
    });
    t.regex(drifted.stderr, /1 have other sums at the processor/u);
  },
);
