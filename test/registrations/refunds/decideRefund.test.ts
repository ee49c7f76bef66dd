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

const refunds = test.macro({
  exec: (t, given: Partial<RefundableRegistration>, requested: number | null, expected: number) => {
    t.is(decideRefund(registration(given), requested, window, NOW), expected);
  },
  title: (title = "") => `a refund returns ${title}`,
});

const rejects = test.macro({
  exec: (
    t,
    given: Partial<RefundableRegistration>,
    requested: number | null,
    code: ErrorCode,
    message: string,
  ) => {
    const error = t.throws(() => decideRefund(registration(given), requested, window, NOW), {
      instanceOf: DomainError,
    });
    t.is(error?.code, code);
    t.is(error?.message, message);
  },
  title: (title = "") => `a refund is rejected ${title}`,
});

const MOST = Number.MAX_SAFE_INTEGER;

test("all units if no count is given", refunds, {}, null, 10);
test("all remaining units if no count is given", refunds, { refundedCount: 9 }, null, 1);
test("one unit", refunds, {}, 1, 1);
test("the registered count", refunds, {}, 10, 10);
test("the remaining count", refunds, { refundedCount: 4 }, 6, 6);
test("the largest count", refunds, { count: MOST }, null, MOST);
test("the last unit of the largest count", refunds, { count: MOST, refundedCount: MOST - 1 }, 1, 1);
test("units of the cycle's first millisecond", refunds, { createdAt: cycle.start }, null, 10);
test(
  "units of the cycle's last millisecond",
  refunds,
  { createdAt: new Date(cycle.end.getTime() - 1) },
  null,
  10,
);

test(
  "units of the next cycle, in which another process already is",
  refunds,
  { createdAt: cycle.end },
  null,
  10,
);

const BEFORE = new Date(cycle.start.getTime() - 1);
const OUTSIDE = "tree registration is outside the current billing cycle";
const FULLY = "tree registration is already fully refunded";
const NO_USAGE = "bottle registration predates the enhanced refund system: no usage record on file";

test(
  "one millisecond before the cycle",
  rejects,
  { createdAt: BEFORE },
  null,
  "outside_billing_cycle",
  OUTSIDE,
);
test(
  "outside the cycle, whatever the counts",
  rejects,
  { createdAt: BEFORE, refundedCount: 10 },
  11,
  "outside_billing_cycle",
  OUTSIDE,
);
test(
  "without usage, whatever else is wrong",
  rejects,
  { kind: "bottle", hasUsage: false, createdAt: BEFORE, refundedCount: 10 },
  11,
  "usage_not_on_file",
  NO_USAGE,
);
test("if no units remain", rejects, { refundedCount: 10 }, null, "request_invalid", FULLY);
test("of one unit if no units remain", rejects, { refundedCount: 10 }, 1, "request_invalid", FULLY);
test(
  "of one unit more than remain",
  rejects,
  { refundedCount: 4 },
  7,
  "request_invalid",
  "count: only 6 can still be refunded",
);
test(
  "of one unit more than remain of the largest count",
  rejects,
  { count: MOST, refundedCount: 1 },
  MOST,
  "request_invalid",
  `count: only ${MOST - 1} can still be refunded`,
);

const atAge = test.macro({
  exec: (t, ageMs: number, acceptedAgeMs: number | null, isRejected: boolean) => {
    const now = new Date("2026-12-01T00:00:00.000Z");
    const year = {
      start: new Date("2026-01-01T00:00:00.000Z"),
      end: new Date("2027-01-01T00:00:00.000Z"),
    };
    const refund = () =>
      decideRefund(
        registration({ createdAt: new Date(now.getTime() - ageMs) }),
        null,
        { cycle: year, acceptedAgeMs },
        now,
      );
    if (isRejected) {
      const error = t.throws(refund, { instanceOf: DomainError });
      t.is(error?.code, "outside_billing_cycle");
      t.regex(error?.message ?? "", /too old/u);
    } else {
      t.is(refund(), 10);
    }
  },
  title: (title = "") => `in a billing period of a year, ${title}`,
});

test(
  "a registration three days younger than Stripe's maximum age is refunded",
  atAge,
  REFUNDABLE_MS,
  ACCEPTED_AGE_MS,
  false,
);
test(
  "a registration one millisecond older is rejected",
  atAge,
  REFUNDABLE_MS + 1,
  ACCEPTED_AGE_MS,
  true,
);
test(
  "a registration of any age is refunded if the processor has no maximum",
  atAge,
  10 * REFUNDABLE_MS,
  null,
  false,
);
