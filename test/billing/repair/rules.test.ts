import test from "ava";
import type { DecidedCorrection } from "../../../modules/billing/reconciliation/decideCorrection.rules.ts";
import { decideCorrection } from "../../../modules/billing/reconciliation/decideCorrection.rules.ts";
import type { BillingStatus, FactEvent } from "../../../modules/billing/billingStatus.rules.ts";
import { billingStatusOf } from "../../../modules/billing/billingStatus.rules.ts";
import { DELIVERED_LATE } from "../../../modules/billing/meterEvents.rules.ts";
import { groupByMinute } from "../../../modules/billing/reconciliation/usageInDoubt.rules.ts";

const NOW = new Date("2026-05-15T12:00:00Z");
const NOW_SECOND = NOW.getTime() / 1000;
const LAG_MS = 15 * 60 * 1000;
const HOUR = 60 * 60;
const DAY = 24 * HOUR;

const MINUTE = {
  quantity: 24,
  second: NOW_SECOND - HOUR,
  isPending: false,
  openIds: [],
  lastDeliveredAt: null,
  isInvoiced: false,
};
const CREDIT_NOTE = { kind: "credit_note", reference: "cn_1" } as const;

type Given = Parameters<typeof decideCorrection>;

const decides = test.macro({
  exec: (
    t,
    {
      includeLostRefunds = false,
      document = null,
      ...minute
    }: Partial<Given[0]> & Partial<Given[1]>,
    expected: Partial<DecidedCorrection>,
  ) => {
    t.like(
      decideCorrection({ ...MINUTE, ...minute }, { includeLostRefunds, document }, LAG_MS, NOW),
      expected,
    );
  },
  title: (title = "") => title,
});

test("units that nothing explains are taken back", decides, {}, { action: "send" });
test("pending usage must be sent first", decides, { isPending: true }, { action: "wait" });
test(
  "usage in doubt must be decided first",
  decides,
  { openIds: ["17", "21"] },
  {
    action: "wait",
    reason:
      "the processor may have meter events 17, 21; retry first, with --assume if the result is unclear, or settle what was billed by hand or must never be billed",
  },
);
test(
  "a sum that may lack the last delivery decides nothing",
  decides,
  { lastDeliveredAt: new Date(NOW.getTime() - LAG_MS + 1) },
  { action: "wait", reason: "the processor's sum may lag until 2026-05-15T12:00:00.001Z" },
);
test(
  "a delivery that the sums must show delays nothing",
  decides,
  { lastDeliveredAt: new Date(NOW.getTime() - LAG_MS) },
  { action: "send" },
);
test("less than ours is not corrected by default", decides, { quantity: -4 }, { action: "skip" });
test(
  "less than ours is billed again if refunds were lost",
  decides,
  { quantity: -4, includeLostRefunds: true },
  { action: "send" },
);
test(
  "units of an invoiced period need a credit note",
  decides,
  { isInvoiced: true },
  {
    action: "document_needed",
    reason: "its billing period has ended; give --credit-note",
  },
);
test(
  "units of an invoiced period are settled with the given credit note",
  decides,
  { isInvoiced: true, document: CREDIT_NOTE },
  { action: "settle", reason: "credit note cn_1" },
);
test(
  "a credit note bills no lost refund",
  decides,
  { quantity: -4, includeLostRefunds: true, isInvoiced: true, document: CREDIT_NOTE },
  {
    action: "document_needed",
    reason: "its billing period has ended; give --invoice-item",
  },
);
test(
  "a document does not replace an event that Stripe accepts",
  decides,
  { document: CREDIT_NOTE },
  { action: "send" },
);
test(
  "usage of 33.5 days is still corrected",
  decides,
  { second: NOW_SECOND - 33.5 * DAY },
  { action: "send" },
);
test(
  "older usage needs a credit note",
  decides,
  { second: NOW_SECOND - 33.5 * DAY - 1 },
  { action: "document_needed", reason: "older than Stripe corrects; give --credit-note" },
);

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

const START = Date.UTC(2026, 4, 15, 12) / 1000;

const eventOf = (id: bigint, changes: Partial<Parameters<typeof groupByMinute>[0][number]>) => ({
  id,
  processor: "stripe" as const,
  customerId: "cus_1",
  accountId: "a",
  kind: "tree" as const,
  second: START,
  quantity: 5,
  ...changes,
});

const idsByMinute = (events: Parameters<typeof groupByMinute>[0]) =>
  groupByMinute(events).map((minute) => minute.map(({ id }) => id));

test("events that the processor sums together are one group, whichever account they belong to", (t) => {
  t.deepEqual(
    idsByMinute([
      eventOf(1n, {}),
      eventOf(2n, { second: START + 59, accountId: "b" }),
      eventOf(3n, { second: START + 60 }),
      eventOf(4n, { kind: "bottle" }),
      eventOf(5n, { customerId: "cus_2" }),
      eventOf(6n, { processor: "ledger" }),
    ]).toSorted(([a = 0n], [b = 0n]) => Number(a - b)),
    [[1n, 2n], [3n], [4n], [5n], [6n]],
  );
});

test("without a customer, each account has separate groups", (t) => {
  const events = [
    eventOf(1n, { customerId: null }),
    eventOf(2n, { customerId: null, accountId: "b" }),
  ];

  t.deepEqual(idsByMinute(events), [[1n], [2n]]);
});

test("a group has usage before refunds, and the sealings of a stream in their order", (t) => {
  const events = [
    eventOf(4n, { quantity: -1 }),
    eventOf(3n, {}),
    eventOf(2n, { second: START + 1 }),
    eventOf(1n, {}),
  ];

  t.deepEqual(idsByMinute(events), [[1n, 3n, 2n, 4n]]);
});
