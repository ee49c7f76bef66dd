import { z } from "zod";
import { textOrNumber } from "../../modules/records/fields.rules.ts";
import { centsToDollars, MAXIMUM_CENTS } from "../../modules/records/money.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { donateFromStore } from "../../modules/stores/donateFromStore.ts";
import { currencyField, PROVIDER_SHARE_ERROR } from "../endpoints/charities.ts";
import type { Endpoint } from "../http/endpoint.ts";
import { bodyObject } from "../http/parseRequest.ts";
import type { StoreAppContext } from "../context.ts";
import {
  KEY_MODES,
  keyMode,
  customerDetailsOf,
  dollars,
  orderFields,
  SUCCESS,
  valueOfAliases,
  withOneEmail,
} from "./fields.ts";
import { storeWriteEndpoint } from "./storeWriteEndpoint.ts";

const CENTS = { minimum: 1, maximum: MAXIMUM_CENTS };

const amount = () => dollars(CENTS).optional();

const fields = bodyObject({
  charity_id: textOrNumber(200)
    .refine((given) => given.trim() !== "", "required")
    .meta({
      pattern: String.raw`^[^\u0000]*[^\s\u0000][^\u0000]*$`,
      description: "The charity's nonprofit_id, or its EIN with or without the dash.",
      examples: ["53-0196605"],
    }),
  amount_dollars: amount().meta({
    description: "US dollars with at most two decimals. Required under one of its three names.",
    examples: [12.5],
  }),
  amount: amount().meta({ description: "Alias of amount_dollars." }),
  donation_amount: amount().meta({ description: "Alias of amount_dollars." }),
  currency: currencyField(),
  ...orderFields,
});

/** The body with one amount, whichever of its names the client used. */
const body = fields
  .transform(({ amount_dollars, amount: short, donation_amount, ...rest }) => {
    const cents = valueOfAliases({ amount_dollars, amount: short, donation_amount });
    if (cents === undefined) {
      throw invalidRequest("amount_dollars: required");
    }
    return { ...withOneEmail(rest), cents };
  })
  .meta({ id: "NewStoreDonation" });

const response = z
  .strictObject({
    status: z.literal(SUCCESS),
    charity_id: z
      .string()
      .meta({ description: "As given in the request.", examples: ["53-0196605"] }),
    amount: z.number().meta({ description: "US dollars.", examples: [12.5] }),
    mode: keyMode(),
  })
  .meta({ id: "StoreDonation" });

export const donateEndpoint = (context: StoreAppContext): Endpoint =>
  storeWriteEndpoint(context, {
    operation: "donate",
    path: "/app/api/charity/donate",
    description: {
      operationId: "donate",
      tag: "donations",
      summary: "Donate to a charity for a customer or an order",
      details: "With a production key, the amount is deducted from the store's balance.",
      errors: {
        request_invalid: "The request is malformed, or the charity is unknown.",
        ...PROVIDER_SHARE_ERROR,
      },
    },
    schemas: { body, response },
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
