import { z } from "zod";
import type { Mode } from "../../modules/records/owner.rules.ts";
import { getStore } from "../../modules/stores/manageStores.ts";
import { readStoreImpact } from "../../modules/stores/readStoreImpact.ts";
import { STORE_LISTS } from "../../modules/stores/storeLists.ts";
import { isBalanceLow } from "../../modules/stores/stores.rules.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import { listEndpoint } from "../http/listEndpoints.ts";
import { responseObject, optional, wholeNumber } from "../http/parseRequest.ts";
import type { AppContext } from "../context.ts";
import { customerFilterOf, customerParameters, KEY_MODES, keyMode, SUCCESS } from "./fields.ts";
import { limitParameter, pageFields, readsOf } from "./storeListEndpoints.ts";

const lowBalanceFields = {
  low_balance: z.boolean().describe("Whether the balance is below the low-balance threshold."),
  low_balance_threshold_cents: wholeNumber(),
};

/** Test keys spend nothing, so their balance is never low. */
const presentLowBalance = (mode: Mode, store: Parameters<typeof isBalanceLow>[0]) => ({
  low_balance: mode === "live" && isBalanceLow(store),
  low_balance_threshold_cents: store.lowBalanceCents,
});

const verification = responseObject("KeyVerification", {
  status: z.literal(SUCCESS),
  shop_domain: z.string(),
  key_mode: keyMode(),
  features: responseObject("StoreFeatures", {
    tree_planting: z.boolean(),
    plastic_removal: z.boolean(),
    donations: z.boolean(),
  }),
  ...lowBalanceFields,
});

export const verifyEndpoint = ({ db }: AppContext) =>
  keyEndpoint("get", "/app/api/verify", {
    operationId: "verifyKey",
    tag: "store",
    summary: "Check a key",
    schemas: { response: verification },
    handle: async ({ owner: { accountId, mode } }) => {
      const store = await getStore(db, accountId);
      return {
        status: SUCCESS,
        shop_domain: store.domain,
        key_mode: KEY_MODES[mode],
        features: {
          tree_planting: store.treePlanting,
          plastic_removal: store.plasticRemoval,
          donations: store.donations,
        },
        ...presentLowBalance(mode, store),
      };
    },
  });

const ledger = STORE_LISTS.balance;

const CURSOR_MUST_BE = "must be a next_cursor";

const ledgerQuery = z.object({
  limit: limitParameter,
  cursor: optional(
    z.string({ error: CURSOR_MUST_BE }).regex(/^\d{0,18}$/u, CURSOR_MUST_BE),
    "The next_cursor of the previous page.",
  ),
});

const balance = responseObject("Balance", {
  key_mode: keyMode(),
  balance_cents: wholeNumber()
    .nullable()
    .describe("Null with a test key, because test keys spend nothing."),
  ...lowBalanceFields,
  prices: responseObject("StorePrices", { tree_cents: wholeNumber(), bottle_cents: wholeNumber() }),
  entries: z.array(ledger.json).describe("Newest first; empty with a test key."),
  ...pageFields,
});

export const balanceEndpoint = (context: AppContext) =>
  listEndpoint(context.streaming, "/app/api/balance", {
    operationId: "balance",
    tag: "store",
    summary: "Read the balance, the prices and the ledger",
    details: "CSV and NDJSON have the whole ledger, unless limit is given.",
    errors: ["query_timeout"],
    schemas: { query: ledgerQuery, response: balance },
    exported: { name: "balance", columns: ledger.columns },
    handle: ({ ctx, owner, query: { limit, cursor } }) => {
      const { accountId, mode } = owner;
      const after = cursor || null;
      const { readPage, rows } = readsOf(ledger, context, ctx, owner, {}, { after, limit });
      return {
        json: async () => {
          const store = await getStore(context.db, accountId);
          const { rows: entries, ...next } = await readPage();
          // What was written since the store was read is among the newest entries.
          const newest = after === null ? entries[0] : undefined;
          const balanceCents = newest?.balance_cents ?? store.balanceCents;
          return {
            key_mode: KEY_MODES[mode],
            balance_cents: mode === "live" ? balanceCents : null,
            ...presentLowBalance(mode, { ...store, balanceCents }),
            prices: { tree_cents: store.treePriceCents, bottle_cents: store.bottlePriceCents },
            entries,
            ...next,
          };
        },
        rows,
      };
    },
  });

const stats = responseObject("ImpactStats", {
  trees: wholeNumber(),
  plastic_bottles: wholeNumber(),
  donations: z.number().min(0).describe("US dollars."),
  co2_kg: z
    .number()
    .min(0)
    .describe(
      "Carbon that the trees are projected to bind over their lifetime; bottles do not count.",
    ),
  customer_scoped: z.boolean().describe("Whether the totals cover one customer."),
});

export const statsEndpoint = (context: AppContext) =>
  keyEndpoint("get", "/app/api/impact/stats", {
    operationId: "impactStats",
    tag: "impact",
    summary: "Read the totals of the store or of one customer",
    details: "Refunded units and donations are not included.",
    errors: ["query_timeout"],
    schemas: { query: z.object(customerParameters), response: stats },
    handle: ({ owner, query }) => readStoreImpact(context, owner, customerFilterOf(query)),
  });
