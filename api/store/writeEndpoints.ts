import { z } from "zod";
import { newId } from "../../runtime/newId.ts";
import { count, textOrNumber, text } from "../../modules/records/fields.rules.ts";
import { bodyObject, responseObject, optional } from "../http/parseRequest.ts";
import type { AppContext } from "../context.ts";
import {
  customerDetailsOf,
  notesField,
  orderFields,
  SUCCESS,
  withOneEmail,
  KEY_MODES,
  KIND_NAMES,
  keyMode,
  dollars,
  valueOfAliases,
} from "./fields.ts";
import { storeWriteEndpoint } from "./storeWriteEndpoint.ts";
import { centsToDollars, MAXIMUM_CENTS } from "../../modules/records/money.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { donateFromStore } from "../../modules/stores/donateFromStore.ts";
import { currencyField } from "../endpoints/charities.ts";
import { KINDS } from "../../modules/records/owner.rules.ts";
import type { Kind } from "../../modules/records/owner.rules.ts";
import { oneOf } from "../../runtime/describeIssues.rules.ts";
import { balanceNote } from "../../modules/stores/stores.rules.ts";
import { MAXIMUM_DONATIONS, MAXIMUM_RECORDS } from "../../modules/stores/storeRefunds.rules.ts";
import { createTopUp } from "../../modules/stores/createTopUp.ts";

const units = (plural: string) =>
  count().meta({ description: `Number of ${plural}.`, examples: [3] });

const registrationFields = { ...orderFields, notes: notesField };
const REGISTRATION_BODIES = {
  tree: bodyObject({ trees: units("trees"), ...registrationFields })
    .transform(withOneEmail)
    .meta({ id: "NewTreeRecord" }),
  bottle: bodyObject({ bottles: units("bottles"), ...registrationFields })
    .transform(withOneEmail)
    .meta({ id: "NewPlasticRecord" }),
} satisfies Record<Kind, z.ZodType>;

const unitsOf = (body: z.output<(typeof REGISTRATION_BODIES)[Kind]>): number =>
  "trees" in body ? body.trees : body.bottles;

const ORDER = { customer_name: "Ann Lee", order_id: "#1001" };
const EXAMPLES = { tree: { trees: 3, ...ORDER }, bottle: { bottles: 3, ...ORDER } };

export const registerEndpoint = (kind: Kind, context: AppContext) => {
  const { operation, path, title, plural, verb, countField } = KIND_NAMES[kind];
  const response = responseObject(`${title}Receipt`, {
    status: z.literal(SUCCESS),
    [countField]: z.int().min(1),
    customer_name: z.string(),
    order_id: z.string(),
  });
  return storeWriteEndpoint(operation, path, {
    operationId: `${verb.toLowerCase()}${title}s`,
    tag: plural,
    summary: `${verb} ${plural} for a customer or an order`,
    details: "With a production key, the price is deducted from the store's balance.",
    errors: ["daily_limit_reached"],
    schemas: { body: REGISTRATION_BODIES[kind], response },
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

const donated = () => dollars({ minimum: 1, maximum: MAXIMUM_CENTS }).optional();

/** The body with one amount, whichever of its names the client used. */
const donationBody = bodyObject({
  charity_id: textOrNumber(200)
    .refine((given) => given.trim() !== "", "required")
    .meta({
      pattern: String.raw`^[^\u0000]*[^\s\u0000][^\u0000]*$`,
      description: "The charity's nonprofit_id, or its EIN with or without the dash.",
      examples: ["53-0196605"],
    }),
  amount_dollars: donated().meta({
    description: "US dollars with at most two decimals. Required under one of its three names.",
    examples: [12.5],
  }),
  amount: donated().describe("Alias of amount_dollars."),
  donation_amount: donated().describe("Alias of amount_dollars."),
  currency: currencyField(),
  ...orderFields,
})
  .transform(({ amount_dollars, amount: short, donation_amount, ...rest }) => {
    const cents = valueOfAliases({ amount_dollars, amount: short, donation_amount });
    if (cents === undefined) {
      throw invalidRequest("amount_dollars: required");
    }
    return { ...withOneEmail(rest), cents };
  })
  .meta({ id: "NewStoreDonation" });

const donationResponse = responseObject("StoreDonation", {
  status: z.literal(SUCCESS),
  charity_id: z
    .string()
    .meta({ description: "As given in the request.", examples: ["53-0196605"] }),
  amount: z.number().meta({ description: "US dollars.", examples: [12.5] }),
  mode: keyMode(),
});

export const donateEndpoint = (context: AppContext) =>
  storeWriteEndpoint("donate", "/app/api/charity/donate", {
    operationId: "donate",
    tag: "donations",
    summary: "Donate to a charity for a customer or an order",
    details: "With a production key, the amount is deducted from the store's balance.",
    errors: ["charity_unconfirmed"],
    schemas: { body: donationBody, response: donationResponse },
    example: { charity_id: "53-0196605", amount_dollars: 12.5, customer_name: "Ann Lee" },
    responseBody: ({ charity_id, cents }, { mode }) => ({
      status: SUCCESS,
      charity_id,
      amount: centsToDollars(cents),
      mode: KEY_MODES[mode],
    }),
    write: (write, given) =>
      donateFromStore(context, write, {
        ...customerDetailsOf(given),
        charityId: given.charity_id.trim(),
        amountCents: given.cents,
      }),
  });

/** Rejects an empty selector, which would select the whole store. */
const selector = <Field extends z.ZodType<string | undefined>>(field: Field): Field =>
  field
    .refine((given) => given?.trim() !== "", "must not be empty; omit it to select the whole store")
    .meta({ pattern: String.raw`^[^\u0000]*[^\s\u0000][^\u0000]*$` });

const REFUND_TYPES = [...KINDS.map((kind) => KIND_NAMES[kind].refundType), "donation"] as const;

const refundBody = bodyObject({
  type: oneOf(REFUND_TYPES),
  quantity: count().meta({ description: "Trees, bottles or donations.", examples: [1] }),
  reason: optional(balanceNote(), "Stored with the refund.", "order cancelled"),
  customer_name: selector(orderFields.customer_name),
  customer_email: selector(orderFields.customer_email),
  email: selector(orderFields.email),
  customer_id: selector(orderFields.customer_id),
  order_id: selector(orderFields.order_id),
})
  .transform(withOneEmail)
  .meta({ id: "NewStoreRefund" });

const refundResponse = responseObject("StoreRefund", {
  status: z.literal(SUCCESS),
  mode: keyMode(),
  refunded_type: z.enum(REFUND_TYPES),
  count: z.int().min(1),
});

export const refundEndpoint = (context: AppContext) =>
  storeWriteEndpoint("refund", "/app/api/refund", {
    operationId: "refund",
    tag: "store",
    summary: "Reverse trees, bottles or donations",
    details:
      "Reverses the newest units of the store, or of the given customer or order. The price that was paid for trees " +
      "and bottles is returned to the balance; donations are not repaid. If fewer units match, nothing changes.",
    errors: [
      [
        "request_invalid",
        "The request is malformed, fewer units match than requested, or one call cannot reverse them: it reverses " +
          `at most ${MAXIMUM_DONATIONS} donations, or trees or bottles of at most ${MAXIMUM_RECORDS} records.`,
      ],
    ],
    schemas: { body: refundBody, response: refundResponse },
    example: { type: "tree", quantity: 1, order_id: "#1001", reason: "order cancelled" },
    responseBody: ({ type, quantity }, { mode }) => ({
      status: SUCCESS,
      mode: KEY_MODES[mode],
      refunded_type: type,
      count: quantity,
    }),
    write: (write, { type, quantity, reason = null, ...fields }) =>
      context.storeWriter.write({
        ...write,
        recordId: null,
        refunded: KINDS.find((each) => KIND_NAMES[each].refundType === type) ?? "donation",
        quantity,
        filter: {
          wholeName: fields.customer_name,
          email: fields.customer_email,
          id: fields.customer_id,
          orderId: fields.order_id,
        },
        reason,
      }),
  });

/** Stripe's limits of one payment in US dollars. */
const PAYMENT_CENTS = { minimum: 50, maximum: 99_999_999 };

const URL_MUST_BE = "must be an https or http URL";

/** A page of the client, of which Stripe replaces `{CHECKOUT_SESSION_ID}`. */
const pageUrl = (when: string) =>
  text(2000)
    .refine((given) => ["https:", "http:"].includes(URL.parse(given)?.protocol ?? ""), URL_MUST_BE)
    .optional()
    .meta({
      format: "uri",
      pattern: "^https?://",
      description: `Where the merchant comes back to ${when}; the shop by default.`,
      examples: ["https://app.example.com/balance"],
    });

const topUpBody = bodyObject({
  amount_dollars: dollars(PAYMENT_CENTS).meta({
    description: "US dollars with at most two decimals.",
    examples: [20],
  }),
  currency: currencyField(),
  success_url: pageUrl("after the payment"),
  cancel_url: pageUrl("without a payment"),
}).meta({ id: "NewTopUp" });

const topUpResponse = responseObject("TopUp", {
  status: z.literal(SUCCESS),
  checkout_url: z.url().describe("Stripe's page for the payment, for 24 hours."),
  amount_dollars: z.number(),
  reference: z.string().describe("The reference of the ledger entry, once it is paid."),
});

export const topUpEndpoint = (context: AppContext) =>
  storeWriteEndpoint("topup", "/app/api/topup", {
    operationId: "topUp",
    tag: "store",
    summary: "Create a page where the merchant pays for the balance",
    details:
      "Open `checkout_url` in the merchant's browser. The balance rises some seconds after the payment, or days after it " +
      "with a delayed payment method. A page that is not paid changes nothing.",
    schemas: { body: topUpBody, response: topUpResponse },
    example: { amount_dollars: 20, success_url: "https://app.example.com/balance" },
    responseBody: null,
    write: (write, { amount_dollars: amountCents, success_url, cancel_url }) =>
      createTopUp(
        context,
        write,
        { amountCents, successUrl: success_url ?? null, cancelUrl: cancel_url ?? null },
        ({ id, url }): z.output<typeof topUpResponse> => ({
          status: SUCCESS,
          checkout_url: url,
          amount_dollars: centsToDollars(amountCents),
          reference: id,
        }),
      ),
  });
