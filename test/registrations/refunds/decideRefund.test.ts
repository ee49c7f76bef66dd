import test from "ava";
import { DomainError } from "../../../runtime/errors.rules.ts";
import type { ErrorCode } from "../../../runtime/errors.rules.ts";
import type { RefundableRegistration } from "../../../modules/registrations/decideRefund.rules.ts";
import { decideRefund } from "../../../modules/registrations/decideRefund.rules.ts";

const cycle = {
  start: new Date("2026-05-15T00:00:00.000Z"),
  end: new Date("2026-06-15T00:00:00.000Z"),
};

/** Stripe's maximum age, of which three days are reserved for sending the refund. */
const ACCEPTED_AGE_MS = 34.5 * 24 * 60 * 60 * 1000;
const REFUNDABLE_MS = 31.5 * 24 * 60 * 60 * 1000;

const window = { cycle, acceptedAgeMs: ACCEPTED_AGE_MS };
const NOW = new Date("2026-05-25T00:00:00.000Z");

const registration = (given: Partial<RefundableRegistration>): RefundableRegistration => ({
  kind: "tree",
  count: 10,
  refundedCount: 0,
  createdAt: new Date("2026-05-20T00:00:00.000Z"),
  hasUsage: true,
  ...given,
});

const MOST = Number.MAX_SAFE_INTEGER;

/** The registration, the requested count and the refunded one. */
const REFUNDED: readonly (readonly [Partial<RefundableRegistration>, number | null, number])[] = [
  [{}, null, 10],
  [{ refundedCount: 9 }, null, 1],
  [{}, 1, 1],
  [{}, 10, 10],
  [{ refundedCount: 4 }, 6, 6],
  [{ count: MOST }, null, MOST],
  [{ count: MOST, refundedCount: MOST - 1 }, 1, 1],
  [{ createdAt: cycle.start }, null, 10],
  [{ createdAt: new Date(cycle.end.getTime() - 1) }, null, 10],
  // Of the next cycle, in which another process already is.
  [{ createdAt: cycle.end }, null, 10],
];

test("a refund returns the requested count, or all units that remain", (t) => {
  for (const [given, requested, expected] of REFUNDED) {
    t.is(decideRefund(registration(given), requested, window, NOW), expected);
  }
});

const BEFORE = new Date(cycle.start.getTime() - 1);
const OUTSIDE = "tree registration is outside the current billing cycle";
const FULLY = "tree registration is already fully refunded";
const NO_USAGE = "bottle registration predates the enhanced refund system: no usage record on file";

const REJECTED: readonly (readonly [
  Partial<RefundableRegistration>,
  number | null,
  ErrorCode,
  string,
])[] = [
  [{ createdAt: BEFORE }, null, "outside_billing_cycle", OUTSIDE],
  [{ createdAt: BEFORE, refundedCount: 10 }, 11, "outside_billing_cycle", OUTSIDE],
  [
    { kind: "bottle", hasUsage: false, createdAt: BEFORE, refundedCount: 10 },
    11,
    "usage_not_on_file",
    NO_USAGE,
  ],
  [{ refundedCount: 10 }, null, "request_invalid", FULLY],
  [{ refundedCount: 10 }, 1, "request_invalid", FULLY],
  [{ refundedCount: 4 }, 7, "request_invalid", "count: only 6 can still be refunded"],
  [
    { count: MOST, refundedCount: 1 },
    MOST,
    "request_invalid",
    `count: only ${MOST - 1} can still be refunded`,
  ],
];

test("a refund is rejected for its usage first, then for its cycle, then for its count", (t) => {
  for (const [given, requested, code, message] of REJECTED) {
    const refund = () => decideRefund(registration(given), requested, window, NOW);
    t.like(t.throws(refund, { instanceOf: DomainError }), { code, message });
  }
});

test("in a billing period of a year, a registration can be refunded until three days before Stripe's maximum age", (t) => {
  const now = new Date("2026-12-01T00:00:00.000Z");
  const year = { start: new Date("2026-01-01T00:00:00Z"), end: new Date("2027-01-01T00:00:00Z") };
  const refund = (ageMs: number, acceptedAgeMs: number | null) => () =>
    decideRefund(
      registration({ createdAt: new Date(now.getTime() - ageMs) }),
      null,
      { cycle: year, acceptedAgeMs },
      now,
    );
  t.is(refund(REFUNDABLE_MS, ACCEPTED_AGE_MS)(), 10);
  t.is(refund(10 * REFUNDABLE_MS, null)(), 10);
  const error = t.throws(refund(REFUNDABLE_MS + 1, ACCEPTED_AGE_MS), { instanceOf: DomainError });
  t.is(error?.code, "outside_billing_cycle");
  t.regex(error?.message ?? "", /too old/u);
});
