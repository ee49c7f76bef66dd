import type { Kind } from "./owner.rules.ts";

/**
 * The scopes of an account's idempotency keys in a mode. `refund` is a store's, whose one request may refund several records;
 * `operator_refund` is apart from those of clients.
 */
export const OPERATIONS = [
  "plant",
  "plastic",
  "donate",
  "refund",
  "topup",
  "refund_plant",
  "refund_plastic",
  "refund_donate",
  "operator_refund",
] as const;
export type Operation = (typeof OPERATIONS)[number];

export const REGISTER_OPERATIONS = { tree: "plant", bottle: "plastic" } as const satisfies Record<
  Kind,
  Operation
>;

export const REFUND_OPERATIONS = {
  tree: "refund_plant",
  bottle: "refund_plastic",
} as const satisfies Record<Kind, Operation>;
