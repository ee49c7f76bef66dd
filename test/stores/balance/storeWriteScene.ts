import type {
  StoreRefundWrite,
  StoreRegistrationWrite,
} from "../../../modules/stores/storeWrites.rules.ts";

const COMMON = { mode: "live", idempotency: null, responseBody: "response" } as const;

/** A write that plants trees, one by default. */
export const plantingOf = (
  accountId: string,
  {
    key,
    requestHash = "ab".repeat(32),
    ...given
  }: Partial<StoreRegistrationWrite> & {
    readonly key?: string;
    readonly requestHash?: string;
  } = {},
): StoreRegistrationWrite => ({
  ...COMMON,
  accountId,
  operation: "plant",
  kind: "tree",
  count: 1,
  recordId: crypto.randomUUID(),
  isLimited: false,
  customerName: null,
  customerEmail: null,
  customerId: null,
  orderId: null,
  notes: null,
  ...given,
  idempotency: key === undefined ? null : { key, requestHash },
});

/** A write that refunds a store's newest trees. */
export const refundOf = (accountId: string, quantity: number): StoreRefundWrite => ({
  ...COMMON,
  accountId,
  operation: "refund",
  recordId: null,
  refunded: "tree",
  quantity,
  filter: {},
  reason: null,
});
