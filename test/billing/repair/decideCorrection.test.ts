import test from "ava";
import type { DecidedCorrection } from "../../../domain/billing/repair/decideCorrection.ts";
import { decideCorrection } from "../../../domain/billing/repair/decideCorrection.ts";

const NOW = new Date("2026-05-15T12:00:00Z");
const NOW_SECOND = NOW.getTime() / 1000;
const LAG_MS = 15 * 60 * 1000;
const HOUR = 60 * 60;
const DAY = 24 * HOUR;

const MINUTE = {
  quantity: 24,
  second: NOW_SECOND - HOUR,
  isUnsettled: false,
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
test("pending usage must be settled first", decides, { isUnsettled: true }, { action: "wait" });
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
