import { z } from "zod";
import type { Kind } from "../../modules/records/owner.rules.ts";
import { listBalanceEntries, readWholeLedger } from "../../modules/stores/balances.sql.ts";
import {
  BALANCE_COLUMNS,
  balanceEntryJson,
  presentBalanceEntry,
} from "../../modules/stores/presentRecords.rules.ts";
import { isBalanceLow } from "../../modules/stores/stores.rules.ts";
import { getStore } from "../../modules/stores/manageStores.ts";
import type { Endpoint } from "../http/endpoint.ts";
import { presentPages } from "../../runtime/presentPages.ts";
import { onePage, selectsPage } from "../http/listExports.ts";
import { READ_ERROR } from "../http/errorResponses.ts";
import { exportableKeyEndpoint } from "../http/listEndpoints.ts";
import { queryObject } from "../http/parseRequest.ts";
import type { StoreAppContext } from "../context.ts";
import { KEY_ERROR, QUERY_ERROR } from "./storeErrors.ts";
import { KEY_MODES, keyMode } from "./fields.ts";
import { limitParameter, pageFields, toPage } from "./storePages.ts";

const CURSOR_MUST_BE = "must be a next_cursor";

const query = queryObject({
  limit: limitParameter,
  cursor: z
    .string({ error: CURSOR_MUST_BE })
    .regex(/^\d{0,18}$/u, CURSOR_MUST_BE)
    .optional()
    .meta({ description: "The next_cursor of the previous page." }),
});

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
    prices: z
      .strictObject({
        tree_cents: z.int().min(0),
        bottle_cents: z.int().min(0),
      } satisfies Record<`${Kind}_cents`, z.ZodType>)
      .meta({ id: "StorePrices" }),
    entries: z
      .array(balanceEntryJson)
      .meta({ description: "Newest first; empty with a test key." }),
    ...pageFields,
  })
  .meta({ id: "Balance" });

export const balanceEndpoint = ({ db, streaming }: StoreAppContext): Endpoint =>
  exportableKeyEndpoint(
    {
      method: "get",
      path: "/app/api/balance",
      description: {
        operationId: "balance",
        tag: "store",
        summary: "Read the balance, the prices and the ledger",
        details: "CSV and NDJSON have the whole ledger, unless limit is given.",
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
              reference: null,
              note: "",
              created_at: "2025-06-01T12:00:00.000000Z",
            },
          ],
          has_more: false,
          next_cursor: "",
        },
      },
      exported: { name: "balance", columns: BALANCE_COLUMNS },
      handle: ({ ctx, caller: { accountId, mode }, query: { limit, cursor } }) => {
        const isLive = mode === "live";
        const before = cursor === undefined || cursor === "" ? null : cursor;
        const listEntries = async (maximum: number) =>
          isLive ? listBalanceEntries(db, accountId, { before, limit: maximum }) : [];
        return {
          readBody: async () => {
            const store = await getStore(db, accountId);
            const { page, last } = toPage(await listEntries(limit + 1), limit);
            // What was written since the store was read is among the newest entries.
            const newest = before === null ? page[0] : undefined;
            const balanceCents = newest?.balanceCents ?? store.balanceCents;
            return {
              key_mode: KEY_MODES[mode],
              balance_cents: isLive ? balanceCents : null,
              low_balance: isLive && isBalanceLow({ ...store, balanceCents }),
              low_balance_threshold_cents: store.lowBalanceCents,
              prices: { tree_cents: store.treePriceCents, bottle_cents: store.bottlePriceCents },
              entries: page.map(presentBalanceEntry),
              has_more: last !== undefined,
              next_cursor: last?.id ?? "",
            };
          },
          readPages: () =>
            presentPages(
              selectsPage(ctx, ["limit"]) || !isLive
                ? onePage(() => listEntries(limit))
                : readWholeLedger(db, accountId, before),
              presentBalanceEntry,
            ),
        };
      },
    },
    streaming,
  );
