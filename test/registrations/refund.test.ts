import test from "ava";
import { DomainError } from "../../domain/errors.ts";
import type { ErrorCode } from "../../domain/errors.ts";
import type { RefundableRegistration } from "../../domain/registrations/refund.ts";
import { decideRefund } from "../../domain/registrations/refund.ts";

const cycle = {
  start: new Date("2026-05-15T00:00:00.000Z"),
  end: new Date("2026-06-15T00:00:00.000Z"),
};

/** Stripe's, with three days kept to send the refund in. */
const ACCEPTED_AGE_MS = 34.5 * 24 * 60 * 60 * 1000;
const REFUNDABLE_MS = 31.5 * 24 * 60 * 60 * 1000;

const within = { cycle, acceptedAgeMs: ACCEPTED_AGE_MS, now: new Date("2026-05-25T00:00:00.000Z") };

const registration = (given: Partial<RefundableRegistration>): RefundableRegistration => ({
  kind: "tree",
  count: 10,
  refundedCount: 0,
  createdAt: new Date("2026-05-20T00:00:00.000Z"),
  hasUsage: true,
  ...given,
});

const takesBack = test.macro({
  exec: (t, given: Partial<RefundableRegistration>, requested: number | null, expected: number) => {
    t.is(decideRefund(registration(given), requested, within), expected);
  },
  title: (title = "") => `a refund takes back ${title}`,
});

const refuses = test.macro({
  exec: (
    t,
    given: Partial<RefundableRegistration>,
    requested: number | null,
    code: ErrorCode,
    message: string,
  ) => {
    const error = t.throws(() => decideRefund(registration(given), requested, within), {
      instanceOf: DomainError,
    });
    t.is(error?.code, code);
    t.is(error?.message, message);
  },
  title: (title = "") => `no refund ${title}`,
});

const MOST = Number.MAX_SAFE_INTEGER;

test("all units when none are named", takesBack, {}, null, 10);
test("all that remain when none are named", takesBack, { refundedCount: 9 }, null, 1);
test("one unit", takesBack, {}, 1, 1);
test("as many as were registered", takesBack, {}, 10, 10);
test("as many as remain", takesBack, { refundedCount: 4 }, 6, 6);
test("as many as can be registered", takesBack, { count: MOST }, null, MOST);
test("the last of as many as can be", takesBack, { count: MOST, refundedCount: MOST - 1 }, 1, 1);
test("units of the cycle's first millisecond", takesBack, { createdAt: cycle.start }, null, 10);
test(
  "units of the cycle's last millisecond",
  takesBack,
  { createdAt: new Date(cycle.end.getTime() - 1) },
  null,
  10,
);

const OUTSIDE = "tree registration is outside the current billing cycle";
const FULLY = "tree registration is already fully refunded";
const NO_USAGE = "bottle registration predates the enhanced refund system: no usage record on file";

test(
  "a millisecond before the cycle",
  refuses,
  { createdAt: new Date(cycle.start.getTime() - 1) },
  null,
  "outside_billing_cycle",
  OUTSIDE,
);
test(
  "at the first millisecond after the cycle",
  refuses,
  { createdAt: cycle.end },
  1,
  "outside_billing_cycle",
  OUTSIDE,
);
test(
  "outside the cycle, however much is asked for or left",
  refuses,
  { createdAt: cycle.end, refundedCount: 10 },
  11,
  "outside_billing_cycle",
  OUTSIDE,
);
test(
  "without usage, whatever else is wrong",
  refuses,
  { kind: "bottle", hasUsage: false, createdAt: cycle.end, refundedCount: 10 },
  11,
  "usage_not_on_file",
  NO_USAGE,
);
test("when nothing is left", refuses, { refundedCount: 10 }, null, "request_invalid", FULLY);
test("of one when nothing is left", refuses, { refundedCount: 10 }, 1, "request_invalid", FULLY);
test(
  "of one more than remain",
  refuses,
  { refundedCount: 4 },
  7,
  "request_invalid",
  "count: only 6 can still be refunded",
);
test(
  "of one more than remain of as many as can be",
  refuses,
  { count: MOST, refundedCount: 1 },
  MOST,
  "request_invalid",
  `count: only ${MOST - 1} can still be refunded`,
);

const atAge = test.macro({
  exec: (t, ageMs: number, acceptedAgeMs: number | null, isRefused: boolean) => {
    const now = new Date("2026-12-01T00:00:00.000Z");
    const year = {
      start: new Date("2026-01-01T00:00:00.000Z"),
      end: new Date("2027-01-01T00:00:00.000Z"),
    };
    const refund = () =>
      decideRefund(registration({ createdAt: new Date(now.getTime() - ageMs) }), null, {
        cycle: year,
        acceptedAgeMs,
        now,
      });
    if (isRefused) {
      const error = t.throws(refund, { instanceOf: DomainError });
      t.is(error?.code, "outside_billing_cycle");
      t.regex(error?.message ?? "", /too old/u);
    } else {
      t.is(refund(), 10);
    }
  },
  title: (title = "") => `in a billing period of a year a registration ${title}`,
});

test(
  "that Stripe takes back for three days more is refunded",
  atAge,
  REFUNDABLE_MS,
  ACCEPTED_AGE_MS,
  false,
);
test("a millisecond older is not", atAge, REFUNDABLE_MS + 1, ACCEPTED_AGE_MS, true);
test(
  "of any age is refunded where the processor takes any",
  atAge,
  10 * REFUNDABLE_MS,
  null,
  false,
);
