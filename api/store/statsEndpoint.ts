import { z } from "zod";
import type { KIND_NAMES } from "./storeKinds.ts";
import { accountModeOf } from "../../modules/records/owner.rules.ts";
import type { Kind } from "../../modules/records/owner.rules.ts";
import { centsToDollars } from "../../modules/records/money.rules.ts";
import { readStoreImpact } from "../../modules/stores/readStoreImpact.ts";
import type { Endpoint } from "../http/endpoint.ts";
import { READ_ERROR, queryError } from "../http/errorResponses.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import { queryObject } from "../http/parseRequest.ts";
import type { StoreAppContext } from "../context.ts";
import { KEY_ERROR } from "./storeErrors.ts";
import { customerFilterOf, customerParameters } from "./fields.ts";

const unitFields = {
  trees: z.int().min(0),
  plastic_bottles: z.int().min(0),
} satisfies Record<(typeof KIND_NAMES)[Kind]["statsField"], z.ZodType>;

const response = z
  .strictObject({
    ...unitFields,
    donations: z.number().min(0).meta({ description: "US dollars." }),
    co2_kg: z.number().min(0).meta({
      description:
        "Carbon that the trees are projected to bind over their lifetime; bottles do not count.",
    }),
    customer_scoped: z.boolean().meta({ description: "Whether the totals cover one customer." }),
  })
  .meta({ id: "ImpactStats" });

export const statsEndpoint = (context: StoreAppContext): Endpoint =>
  keyEndpoint({
    method: "get",
    path: "/app/api/impact/stats",
    description: {
      operationId: "impactStats",
      tag: "impact",
      summary: "Read the totals of the store or of one customer",
      details: "Refunded units and donations are not included.",
      errors: [queryError("customer: must be given at most once"), KEY_ERROR, READ_ERROR],
    },
    schemas: { query: queryObject(customerParameters), response },
    examples: {
      response: {
        trees: 120,
        plastic_bottles: 40,
        donations: 12.5,
        co2_kg: 24_000,
        customer_scoped: false,
      },
    },
    handle: async ({ caller, query }) => {
      const totals = await readStoreImpact(context, accountModeOf(caller), customerFilterOf(query));
      return {
        trees: totals.units.tree,
        plastic_bottles: totals.units.bottle,
        donations: centsToDollars(totals.donationCents),
        co2_kg: totals.co2Kg,
        customer_scoped: totals.customerScoped,
      };
    },
  });
