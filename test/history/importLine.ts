import type { ImportedRegistration } from "../../modules/history/importedRecords.rules.ts";

export type Fields = Readonly<Record<string, unknown>>;

/** Returns a line of an import with defaults for the fields that a test does not set. */
export const lineOf = (fields: Fields = {}): string =>
  JSON.stringify({
    kind: "tree",
    ...("idempotency_key" in fields ? {} : { id: crypto.randomUUID() }),
    count: 1,
    created_at: "2024-05-01T09:30:00Z",
    ...fields,
  });

export const DONATION: Fields = {
  kind: "donation",
  id: "d",
  amount_cents: 700,
  nonprofit_id: "n",
  charity_name: "C",
  created_at: "2024-06-01T00:00:00Z",
};

/** A customer of a store. */
export const ANN = {
  customer_name: "Ann Lee",
  customer_email: "ann@example.com",
  customer_id: "7",
};

/** A line of one tree, as it is read from a file. */
export const importedTree: ImportedRegistration = {
  kind: "tree",
  imported_id: null,
  count: 1,
  refunded_count: 0,
  fractional_count: 0,
  created_at: "2024-05-01T09:30:00.000000Z",
  idempotency_key: null,
  attribution: "",
  metadata: {},
  customer_name: null,
  customer_email: null,
  customer_id: null,
  order_id: null,
  notes: null,
  unit_price_cents: null,
};
