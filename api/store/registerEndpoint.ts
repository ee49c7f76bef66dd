import { z } from "zod";
import type { Kind } from "../../modules/records/owner.rules.ts";
import { newId } from "../../runtime/newId.ts";
import { count } from "../../modules/records/fields.rules.ts";
import type { Endpoint } from "../http/endpoint.ts";
import { bodyObject } from "../http/parseRequest.ts";
import { DAILY_LIMIT_ERROR } from "../http/errorResponses.ts";
import type { StoreAppContext } from "../context.ts";
import { customerDetailsOf, notesField, orderFields, SUCCESS, withOneEmail } from "./fields.ts";
import { storeWriteEndpoint } from "./storeWriteEndpoint.ts";
import { KIND_NAMES } from "./storeKinds.ts";

const units = (plural: string) =>
  count().meta({ description: `Number of ${plural}.`, examples: [3] });

const fields = { ...orderFields, notes: notesField };
const BODIES = {
  tree: bodyObject({ trees: units("trees"), ...fields })
    .transform(withOneEmail)
    .meta({ id: "NewTreeRecord" }),
  bottle: bodyObject({ bottles: units("bottles"), ...fields })
    .transform(withOneEmail)
    .meta({ id: "NewPlasticRecord" }),
} satisfies Record<Kind, z.ZodType>;

const unitsOf = (body: z.output<(typeof BODIES)[Kind]>): number =>
  "trees" in body ? body.trees : body.bottles;

const ORDER = { customer_name: "Ann Lee", order_id: "#1001" };
const EXAMPLES = { tree: { trees: 3, ...ORDER }, bottle: { bottles: 3, ...ORDER } };

/** Builds the endpoint that registers units of one kind. */
export const registerEndpoint = (kind: Kind, context: StoreAppContext): Endpoint => {
  const { operation, path, title, plural, verb, countField } = KIND_NAMES[kind];
  const response = z
    .strictObject({
      status: z.literal(SUCCESS),
      [countField]: z.int().min(1),
      customer_name: z.string(),
      order_id: z.string(),
    })
    .meta({ id: `${title}Receipt` });
  return storeWriteEndpoint(context, {
    operation,
    path,
    description: {
      operationId: `${verb.toLowerCase()}${title}s`,
      tag: plural,
      summary: `${verb} ${plural} for a customer or an order`,
      details: "With a production key, the price is deducted from the store's balance.",
      errors: {
        request_invalid:
          "The request is malformed; the message names each invalid field. Or its units exceed the store's limit for " +
          "one request, or for a whole day.",
        ...DAILY_LIMIT_ERROR,
      },
    },
    schemas: { body: BODIES[kind], response },
    example: EXAMPLES[kind],
    responseBody: (body) => ({
      status: SUCCESS,
      [countField]: unitsOf(body),
      customer_name: body.customer_name ?? "",
      order_id: body.order_id ?? "",
    }),
    write: (write, body, { isLimited }) =>
      context.storeWriter.write({
        ...write,
        recordId: newId(),
        ...customerDetailsOf(body),
        kind,
        count: unitsOf(body),
        isLimited,
      }),
  });
};
