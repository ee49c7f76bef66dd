import type { DatabasePool } from "slonik";
import { z } from "zod";
import type { BalanceEntry } from "../../../db/stores/balances.ts";
import { listBalanceEntries } from "../../../db/stores/balances.ts";
import { BALANCE_ENTRY_KINDS, isBalanceLow } from "../../../domain/stores/stores.ts";
import { getStore } from "../../../services/stores/getStore.ts";
import type { Endpoint } from "../../http/endpoint.ts";
import { READ_ERROR } from "../../http/readError.ts";
import { keyEndpoint } from "../../http/endpoint.ts";
import { queryObject } from "../../http/parseRequest.ts";
import { KEY_ERROR, QUERY_ERROR } from "../errors.ts";
import { KEY_MODES, keyMode } from "../fields.ts";
import { limitParameter, pageFields, toPage } from "../pagination.ts";

const CURSOR_MUST_BE = "must be a next_cursor";

const query = queryObject({
  limit: limitParameter,
  cursor: z
    .string({ error: CURSOR_MUST_BE })
    .regex(/^\d{0,18}$/u, CURSOR_MUST_BE)
    .optional()
    .meta({ description: "The next_cursor of the previous page." }),
});

const entry = z
  .strictObject({
    id: z.string().meta({ examples: ["4711"] }),
    kind: z.enum(BALANCE_ENTRY_KINDS),
    amount_cents: z.int().meta({ description: "Negative for what was spent." }),
    balance_cents: z.int().min(0).meta({ description: "The balance after this entry." }),
    quantity: z.int().nullable().meta({ description: "Number of trees or bottles." }),
    record_id: z
      .string()
      .nullable()
      .meta({ description: "The tree record, plastic record or donation that was paid for." }),
    note: z.string(),
    created_at: z.iso.datetime(),
  })
  .meta({ id: "BalanceEntry" });

const response = z
  .strictObject({
    key_mode: keyMode(),
    balance_cents: z
      .int()
      .min(0)
      .nullable()
      .meta({ description: "Null with a test key, because test keys spend nothing." }),
    low_balance: z.boolean(),
    low_balance_threshold_cents: z.int().min(0),
    prices: z.strictObject({ tree_cents: z.int().min(0), bottle_cents: z.int().min(0) }),
    entries: z.array(entry).meta({ description: "Newest first; empty with a test key." }),
    ...pageFields,
  })
  .meta({ id: "Balance" });

const presentEntry = (balanceEntry: BalanceEntry): z.output<typeof entry> => ({
  id: balanceEntry.id,
  kind: balanceEntry.kind,
  amount_cents: balanceEntry.amountCents,
  balance_cents: balanceEntry.balanceCents,
  quantity: balanceEntry.quantity,
  record_id: balanceEntry.recordId,
  note: balanceEntry.note,
  created_at: balanceEntry.createdAt.toISOString(),
});

export const balanceEndpoint = ({ db }: { readonly db: DatabasePool }): Endpoint =>
  keyEndpoint({
    method: "get",
    path: "/app/api/balance",
    description: {
      operationId: "balance",
      tag: "store",
      summary: "Read the balance, the prices and the ledger",
      errors: [QUERY_ERROR, KEY_ERROR, READ_ERROR],
    },
    schemas: { query, response },
    examples: {
      response: {
        key_mode: "PROD",
        balance_cents: 9850,
        low_balance: false,
        low_balance_threshold_cents: 5000,
        prices: { tree_cents: 50, bottle_cents: 10 },
        entries: [
          {
            id: "4711",
            kind: "tree",
            amount_cents: -150,
            balance_cents: 9850,
            quantity: 3,
            record_id: "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11",
            note: "",
            created_at: "2025-06-01T12:00:00.000Z",
          },
        ],
        has_more: false,
        next_cursor: "",
      },
    },
    handle: async ({ caller, query: { limit, cursor } }) => {
      const isLive = caller.mode === "live";
      const store = await getStore(db, caller.accountId);
      const before = cursor === undefined || cursor === "" ? null : cursor;
      const found = isLive
        ? await listBalanceEntries(db, store.id, { before, limit: limit + 1 })
        : [];
      const { page, last } = toPage(found, limit);
      return {
        key_mode: KEY_MODES[caller.mode],
        balance_cents: isLive ? store.balanceCents : null,
        low_balance: isLive && isBalanceLow(store),
        low_balance_threshold_cents: store.lowBalanceCents,
        prices: { tree_cents: store.treePriceCents, bottle_cents: store.bottlePriceCents },
        entries: page.map(presentEntry),
        has_more: last !== undefined,
        next_cursor: last?.id ?? "",
      };
    },
  });
