import type { ImportedRegistration } from "../../modules/history/importedRecords.rules.ts";

/** A line of one tree, as it is read from a file. */
export const importedTree: ImportedRegistration = {
  kind: "tree",
  importedId: null,
  count: 1,
  refundedCount: 0,
  fractionalCount: 0,
  createdAt: "2024-05-01T09:30:00.000000Z",
  idempotencyKey: null,
  attribution: "",
  metadata: {},
  customerName: null,
  customerEmail: null,
  customerId: null,
  orderId: null,
  notes: null,
  unitPriceCents: null,
};
