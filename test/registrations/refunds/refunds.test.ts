import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import { ACCEPTED_AGE_MS } from "../../../modules/billing/usage.rules.ts";
import { createBilling } from "../../../modules/billing/createBilling.ts";
import { eachKind, idIn, KIND_NAMES, registrationsIn, statusesOf } from "../../api/contract.ts";
import { runImpact } from "../../cli/runImpact.ts";
import { startStandaloneApi, startApiOf } from "../../api/startStandaloneApi.ts";
import { readAccountSums } from "../../support/accountSums.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { callDouble } from "../../stripeDouble/callDouble.ts";
import { startBilledApi } from "../../billing/billedApi.ts";
import { setUpBilling } from "../../billing/billingSetup.ts";
import { createMovableClock } from "../../support/movableClock.ts";
import { DomainError } from "../../../runtime/errors.rules.ts";
import { decideRefund } from "../../../modules/registrations/decideRefund.rules.ts";
import type { RefundableRegistration } from "../../../modules/registrations/decideRefund.rules.ts";

const test = testWithDatabase();
const forBothKinds = eachKind(test);

type Post = Awaited<ReturnType<typeof startApiOf>>["post"];

const REPLAYED = "Idempotent-Replayed";
const TAKEN = { error: "idempotency_key: belongs to the refund of another registration" };

const plant = async (post: Post, count: number): Promise<string> =>
  idIn((await post("/plant/trees", { count })).body, "tree");

/** Returns the refunds of a registration and the usage that they take back. */
const readRefunds = ({ db }: DatabaseContext, registrationId: string) =>
  db.one(sql.type(z.strictObject({ refunds: z.array(z.int()), usage: z.array(z.int()) }))`
    SELECT
      (SELECT coalesce(json_agg(count ORDER BY id), '[]') FROM refund WHERE registration_id = ${registrationId}) AS refunds,
      (
        SELECT coalesce(json_agg(quantity ORDER BY id), '[]')
        FROM usage_fact
        WHERE refund_id IN (SELECT id FROM refund WHERE registration_id = ${registrationId})
      ) AS usage
  `);

forBothKinds("a repeated key returns its refund and refunds nothing", async (t, kind) => {
  const { path, refundPath, total, refunded } = KIND_NAMES[kind];
  const { post } = await startApiOf(t);
  const created = await post(path, { count: 10 });
  const id = idIn(created.body, kind);
  const body = { id, count: 4, idempotency_key: "return-1" };

  const first = await post(refundPath, body);
  await post(refundPath, { id, count: 5, idempotency_key: "return-2" });
  const replay = await post(refundPath, body);
  const otherBody = await post(refundPath, {
    id: id.toUpperCase(),
    reason: "again",
    idempotency_key: "return-1",
  });

  t.like(first, { status: 200, replayed: null, body: { [refunded]: 4, [total]: 6 } });
  const [registration] = registrationsIn(created.body, kind);
  for (const { status, headers, body: repeated } of [replay, otherBody]) {
    t.is(status, 200);
    t.is(headers.get(REPLAYED), "true");
    t.deepEqual(repeated, {
      [refunded]: 4,
      [total]: 1,
      refund_details: [{ ...registration, refunded: true, refunded_count: 9 }],
      refund_id: `refund-${id}`,
    });
  }
  t.deepEqual(await readRefunds(t.context, id), { refunds: [4, 5], usage: [-4, -5] });
});

test("one key for several registrations refunds one of them, also concurrently", async (t) => {
  const { get, post } = await startApiOf(t);
  const ids = await Promise.all(Array.from({ length: 8 }, () => plant(post, 2)));
  const refund = (id: string) => post("/refund/trees", { id, idempotency_key: "mixed" });

  const responses = await Promise.all(ids.map(refund));

  t.is(responses.filter(({ status }) => status === 200).length, 1);
  for (const { status, body } of responses.filter((each) => each.status !== 200)) {
    t.is(status, 400);
    t.deepEqual(body, TAKEN);
  }
  const again = await Promise.all(ids.map(refund));
  t.deepEqual(statusesOf(again), statusesOf(responses));
  t.is((await get("/plant/trees")).body["total_planted_trees"], 14);
});

test("a rejected refund leaves its key free, and an empty key is none", async (t) => {
  const { post } = await startApiOf(t);
  const id = await plant(post, 3);
  const refund = (count: number, idempotencyKey: string) =>
    post("/refund/trees", { id, count, idempotency_key: idempotencyKey });

  t.is((await refund(4, "k")).status, 400);
  t.like(await refund(1, "k"), { status: 200 });
  t.is((await refund(1, "")).headers.get(REPLAYED), null);
  t.is((await refund(1, "")).headers.get(REPLAYED), null);
  t.deepEqual(await readRefunds(t.context, id), { refunds: [1, 1, 1], usage: [-1, -1, -1] });
  t.is((await refund(1, "k")).headers.get(REPLAYED), "true");
});

test("a replay needs neither the billing cycle nor the processor", async (t) => {
  const clock = createMovableClock("2026-03-14T23:59:59.999Z");
  const organization = { billingDay: 15 };
  const { id: accountId, key, post } = await startApiOf(t, { organization, clock });
  const id = await plant(post, 3);
  const body = { id, count: 1, idempotency_key: "late" };
  await post("/refund/trees", body);
  clock.set("2026-03-15T00:00:00.000Z");
  // Billed by Stripe from now on, which this API does not know.
  await t.context.db.query(sql.typeAlias("void")`
    UPDATE account
    SET stripe_customer_id = 'cus_moved', stripe_subscription_id = 'sub_moved'
    WHERE id = ${accountId}
  `);
  const later = await startStandaloneApi(t, {
    db: t.context.db,
    clock,
    billing: createBilling({ db: t.context.db, stripe: null }),
  });

  const replay = await later.call("POST", "/refund/trees", { key, body });
  const another = await later.call("POST", "/refund/trees", { key, body: { id, count: 1 } });

  const totals = { refunded_trees: 1, total_planted_trees: 2 };
  t.like(replay, { status: 200, replayed: "true", body: totals });
  t.is(another.status, 503);
});

test("a refund whose billing period Stripe cannot return is a 503 that changes nothing", async (t) => {
  const billing = await setUpBilling(t);
  const { deps, double, stream, subscriptionId } = billing;
  const { post, logged } = await startBilledApi(t, billing);
  const id = await billing.register(3);
  const body = { id, count: 1, idempotency_key: "k" };
  const before = await readAccountSums(deps.db, stream.accountId);

  for (const kind of ["drop", "bad_gateway", "server_error", "rate_limit"] as const) {
    for (const [path, sent] of [
      ["/refund/trees", body],
      ["/refund/trees/batch", { items: [body] }],
    ] as const) {
      double.control.addFault({ kind, method: "GET", path: `/v1/subscriptions/${subscriptionId}` });
      const failed = await post(path, sent);
      t.is(failed.status, 503, `${kind} ${path}`);
      t.is(failed.headers.get("Retry-After"), "1");
      t.deepEqual(failed.body, {
        error: "the payment processor is temporarily unavailable, try again",
      });
    }
  }
  t.deepEqual(await readAccountSums(deps.db, stream.accountId), before);
  t.true(JSON.stringify(logged()).includes("connection to Stripe"));

  t.like(await post("/refund/trees", body), { status: 200, replayed: null });
  t.deepEqual(await readRefunds(t.context, id), { refunds: [1], usage: [-1] });
});

test("a refund is a 503 while Stripe still returns the period that has ended", async (t) => {
  const billing = await setUpBilling(t);
  const { deps, double, stream, subscriptionId } = billing;
  const { control } = double;
  const { post, logged } = await startBilledApi(t, billing);
  const id = await billing.register(3);
  const path = `/v1/subscriptions/${subscriptionId}`;
  const { body } = await callDouble(double, "GET", path);
  const returnFormer = () => {
    control.addFault({ kind: "respond", method: "GET", path, status: 200, body });
  };
  control.holdClock({ second: Date.UTC(2026, 5, 15, 12) / 1000 });

  for (const [target, sent] of [
    ["/refund/trees", { id, count: 1 }],
    ["/refund/trees/batch", { items: [{ id, count: 1, idempotency_key: "k" }] }],
  ] as const) {
    returnFormer();
    const { status, headers, body: error } = await post(target, sent);
    t.is(status, 503, target);
    t.is(headers.get("Retry-After"), "1");
    t.deepEqual(error, {
      error: "the payment processor has not begun the current billing period yet, try again later",
    });
  }
  t.true(JSON.stringify(logged()).includes("Stripe returned no current billing period"));
  t.deepEqual(await readRefunds(t.context, id), { refunds: [], usage: [] });

  returnFormer();
  const statement = await runImpact(
    ["statement", "--org", stream.accountId, "--period", "current"],
    { env: { DATABASE_URL: t.context.databaseUrl, ...double.env }, clock: deps.clock },
  );
  t.is(statement.exitCode, 4);
  t.regex(statement.stderr, /has not begun the current billing period yet, try again later/u);
});

const YEAR = { start: new Date("2026-01-01T00:00:00Z"), end: new Date("2027-01-01T00:00:00Z") };
const IN_DECEMBER = new Date("2026-12-01T00:00:00.000Z");
const TOO_OLD_MS = 31.5 * 24 * 60 * 60 * 1000 + 1;

/** Decides a refund in a billing period of a year. */
const decideInYear = (
  given: Partial<RefundableRegistration>,
  requested: number | null = null,
  processor: "ledger" | "stripe" = "stripe",
) => {
  const units = { kind: "tree", count: 10, refundedCount: 0, unitPriceCents: null } as const;
  const registration = { ...units, hasUsage: true, createdAt: IN_DECEMBER, ...given };
  const window = { cycle: YEAR, acceptedAgeMs: ACCEPTED_AGE_MS[processor] };
  return decideRefund(registration, requested, window, IN_DECEMBER);
};

test("a refund is rejected for its usage first, then for its cycle, then for its age, then for its count", (t) => {
  const createdAt = new Date("2025-12-31T23:59:59.999Z");
  const all = { hasUsage: false, createdAt, refundedCount: 10 };
  const tooOld = { createdAt: new Date(IN_DECEMBER.getTime() - TOO_OLD_MS), refundedCount: 10 };
  for (const [given, requested, message] of [
    [all, 11, /no usage record on file$/u],
    [{ ...all, hasUsage: true }, 11, /outside the current billing cycle$/u],
    [tooOld, 11, /too old: the payment processor would reject the refund of its usage$/u],
    [{ refundedCount: 10 }, 1, /already fully refunded$/u],
    [{ refundedCount: 4 }, 7, /^count: only 6 can still be refunded$/u],
  ] as const) {
    t.throws(() => decideInYear(given, requested), { instanceOf: DomainError, message });
  }
});

test("in a billing period of a year, a registration can be refunded until three days before Stripe's maximum age", (t) => {
  const createdAt = new Date(IN_DECEMBER.getTime() - TOO_OLD_MS + 1);
  t.is(decideInYear({ createdAt }), 10);
  t.is(decideInYear({ createdAt: YEAR.start }, null, "ledger"), 10);
  // Of the next period, in which another process already is.
  t.is(decideInYear({ createdAt: YEAR.end, refundedCount: 4 }), 6);
});
