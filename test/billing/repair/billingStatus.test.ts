import test from "ava";
import type { BillingStatus, FactEvent } from "../../../domain/billing/billingStatus.ts";
import { billingStatusOf } from "../../../domain/billing/billingStatus.ts";
import { DELIVERED_LATE } from "../../../domain/billing/meterEvents.ts";

const event = (state: FactEvent["state"], lastError: string | null = null): FactEvent => ({
  state,
  lastError,
});

const is = test.macro({
  exec: (
    t,
    events: readonly (FactEvent | null)[],
    expected: BillingStatus,
    refundedCount: number = 0,
  ) => {
    t.is(billingStatusOf({ isPrepaid: false, count: 3, refundedCount }, events), expected);
  },
  title: (title = "") => `the billing of a registration is known ${title}`,
});

test("while its usage is not sealed", is, [null], "pending");
test("while its usage is not delivered", is, [event("sending")], "pending");
test("while a refund of it is not sealed", is, [event("delivered"), null], "pending");
test("once its usage is delivered", is, [event("delivered"), event("delivered")], "reported");
test("if it was delivered late", is, [event("delivered", DELIVERED_LATE)], "late");
test(
  "if it was refunded before it was sent",
  is,
  [event("void"), event("void")],
  "cancelled_out",
  3,
);
test("if refunds of other usage offset it", is, [event("void")], "reported");
test("if they offset what remains of it", is, [event("void"), event("void")], "reported", 2);
test("if it failed, whatever waits", is, [event("rejected"), null], "failed");
test("if it was waived and its refund is held", is, [event("waived"), event("held")], "waived");
test("if it was imported", is, [], "imported");

test("the billing of a store's registration is its balance", (t) => {
  t.is(billingStatusOf({ isPrepaid: true, count: 3, refundedCount: 0 }, []), "prepaid");
});
