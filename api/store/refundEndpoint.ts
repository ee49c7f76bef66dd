import { z } from "zod";
import { KIND_NAMES } from "./storeKinds.ts";
import { KINDS } from "../../modules/records/owner.rules.ts";
import { count } from "../../modules/records/fields.rules.ts";
import { oneOf } from "../../runtime/describeIssues.rules.ts";
import { balanceNote } from "../../modules/stores/stores.rules.ts";
import { MAXIMUM_DONATIONS, MAXIMUM_RECORDS } from "../../modules/stores/storeRefunds.rules.ts";
import type { Endpoint } from "../http/endpoint.ts";
import { bodyObject } from "../http/parseRequest.ts";
import type { StoreAppContext } from "../context.ts";
import {
  KEY_MODES,
  keyMode,
  customerDetailsOf,
  orderFields,
  SUCCESS,
  withOneEmail,
} from "./fields.ts";
import { storeWriteEndpoint } from "./storeWriteEndpoint.ts";

/** Rejects an empty selector, which would select the whole store. */
const selector = <Field extends z.ZodType<string | undefined>>(field: Field): Field =>
  field
    .refine((given) => given?.trim() !== "", "must not be empty; omit it to select the whole store")
    .meta({ pattern: String.raw`^[^\u0000]*[^\s\u0000][^\u0000]*$` });

const TYPES = [...KINDS.map((kind) => KIND_NAMES[kind].refundType), "donation"] as const;

const body = bodyObject({
  type: oneOf(TYPES),
  quantity: count().meta({ description: "Trees, bottles or donations.", examples: [1] }),
  reason: balanceNote()
    .optional()
    .meta({ description: "Stored with the refund.", examples: ["order cancelled"] }),
  customer_name: selector(orderFields.customer_name),
  customer_email: selector(orderFields.customer_email),
  email: selector(orderFields.email),
  customer_id: selector(orderFields.customer_id),
  order_id: selector(orderFields.order_id),
})
  .transform(withOneEmail)
  .meta({ id: "NewStoreRefund" });

const response = z
  .strictObject({
    status: z.literal(SUCCESS),
    mode: keyMode(),
    refunded_type: z.enum(TYPES),
    count: z.int().min(1),
  })
  .meta({ id: "StoreRefund" });

export const refundEndpoint = (context: StoreAppContext): Endpoint =>
  storeWriteEndpoint(context, {
    operation: "refund",
    path: "/app/api/refund",
    description: {
      operationId: "refund",
      tag: "store",
      summary: "Reverse trees, bottles or donations",
      details:
        "Reverses the newest units of the store, or of the given customer or order. The price that was paid for trees " +
        "and bottles is returned to the balance; donations are not repaid. If fewer units match, nothing changes.",
      errors: {
        request_invalid:
          "The request is malformed, fewer units match than requested, or one call cannot reverse them: it reverses " +
          `at most ${MAXIMUM_DONATIONS} donations, or trees or bottles of at most ${MAXIMUM_RECORDS} records.`,
      },
    },
    schemas: { body, response },
    example: { type: "tree", quantity: 1, order_id: "#1001", reason: "order cancelled" },
    responseBody: ({ type, quantity }, { mode }) => ({
      status: SUCCESS,
      mode: KEY_MODES[mode],
      refunded_type: type,
      count: quantity,
    }),
    write: (write, { type, quantity, reason = null, ...fields }) => {
      const { customerName, customerEmail, customerId, orderId } = customerDetailsOf(fields);
      return context.storeWriter.write({
        ...write,
        recordId: null,
        refunded: KINDS.find((each) => KIND_NAMES[each].refundType === type) ?? "donation",
        quantity,
        filter: {
          // Unlike in the lists, a name must match as a whole, since money is involved.
          exactName: customerName ?? undefined,
          emails: customerEmail === null ? undefined : [customerEmail],
          id: customerId ?? undefined,
          orderId: orderId ?? undefined,
        },
        reason,
      });
    },
  });
