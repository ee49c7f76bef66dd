import { z } from "zod";
import { text } from "../../modules/records/fields.rules.ts";
import { centsToDollars } from "../../modules/records/money.rules.ts";
import { createTopUp } from "../../modules/stores/createTopUp.ts";
import { currencyField } from "../endpoints/charities.ts";
import type { Endpoint } from "../http/endpoint.ts";
import { bodyObject } from "../http/parseRequest.ts";
import type { StoreAppContext } from "../context.ts";
import { dollars, SUCCESS } from "./fields.ts";
import { storeWriteEndpoint } from "./storeWriteEndpoint.ts";

/** Stripe's limits of one payment in US dollars. */
const CENTS = { minimum: 50, maximum: 99_999_999 };

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

const body = bodyObject({
  amount_dollars: dollars(CENTS).meta({
    description: "US dollars with at most two decimals.",
    examples: [20],
  }),
  currency: currencyField(),
  success_url: pageUrl("after the payment"),
  cancel_url: pageUrl("without a payment"),
}).meta({ id: "NewTopUp" });

const response = z
  .strictObject({
    status: z.literal(SUCCESS),
    checkout_url: z.url().meta({ description: "Stripe's page for the payment, for 24 hours." }),
    amount_dollars: z.number(),
    reference: z
      .string()
      .meta({ description: "The reference of the ledger entry, once it is paid." }),
  })
  .meta({ id: "TopUp" });

export const topUpEndpoint = (context: StoreAppContext): Endpoint =>
  storeWriteEndpoint(context, {
    operation: "topup",
    path: "/app/api/topup",
    description: {
      operationId: "topUp",
      tag: "store",
      summary: "Create a page where the merchant pays for the balance",
      details:
        "Open `checkout_url` in the merchant's browser. The balance rises some seconds after the payment, or days after it " +
        "with a delayed payment method. A page that is not paid changes nothing.",
      errors: {
        request_invalid:
          "The request is malformed, the key is a test key, or the operator takes no payments through Stripe.",
        service_unavailable: "The database or Stripe cannot be reached. Try again.",
      },
    },
    schemas: { body, response },
    example: { amount_dollars: 20, success_url: "https://app.example.com/balance" },
    responseBody: null,
    write: (write, { amount_dollars: amountCents, success_url, cancel_url }) =>
      createTopUp(
        context,
        write,
        { amountCents, successUrl: success_url ?? null, cancelUrl: cancel_url ?? null },
        ({ id, url }): z.output<typeof response> => ({
          status: SUCCESS,
          checkout_url: url,
          amount_dollars: centsToDollars(amountCents),
          reference: id,
        }),
      ),
  });
