import { z } from "zod";
import { isBalanceLow } from "../../modules/stores/stores.rules.ts";
import type { Endpoint } from "../http/endpoint.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import { getStore } from "../../modules/stores/manageStores.ts";
import type { StoreAppContext } from "../context.ts";
import { KEY_ERROR } from "./storeErrors.ts";
import { KEY_MODES, keyMode, SUCCESS } from "./fields.ts";

const response = z
  .strictObject({
    status: z.literal(SUCCESS),
    shop_domain: z.string(),
    key_mode: keyMode(),
    features: z
      .strictObject({
        tree_planting: z.boolean(),
        plastic_removal: z.boolean(),
        donations: z.boolean(),
      })
      .meta({ id: "StoreFeatures" }),
    low_balance: z
      .boolean()
      .meta({ description: "Whether the balance is below the low-balance threshold." }),
    low_balance_threshold_cents: z.int().min(0),
  })
  .meta({ id: "KeyVerification" });

export const verifyEndpoint = ({ db }: StoreAppContext): Endpoint =>
  keyEndpoint({
    method: "get",
    path: "/app/api/verify",
    description: {
      operationId: "verifyKey",
      tag: "store",
      summary: "Check a key",
      errors: [KEY_ERROR],
    },
    schemas: { response },
    examples: {
      response: {
        status: SUCCESS,
        shop_domain: "example.myshopify.com",
        key_mode: "PROD",
        features: { tree_planting: true, plastic_removal: true, donations: true },
        low_balance: false,
        low_balance_threshold_cents: 5000,
      },
    },
    handle: async ({ caller }) => {
      const store = await getStore(db, caller.accountId);
      return {
        status: SUCCESS,
        shop_domain: store.domain,
        key_mode: KEY_MODES[caller.mode],
        features: {
          tree_planting: store.treePlanting,
          plastic_removal: store.plasticRemoval,
          donations: store.donations,
        },
        low_balance: caller.mode === "live" && isBalanceLow(store),
        low_balance_threshold_cents: store.lowBalanceCents,
      };
    },
  });
