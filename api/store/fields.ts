import { z } from "zod";
import type { Mode } from "../../domain/accounts/accounts.ts";
import type { CustomerFilter, CustomerDetails } from "../../domain/stores/customers.ts";
import {
  anyCustomer,
  customerEmail,
  customerId,
  customerName,
  notes,
  orderId,
} from "../../domain/stores/customers.ts";

/** What this interface calls the modes. */
export const KEY_MODES = { live: "PROD", test: "TEST" } as const satisfies Record<Mode, string>;

/** The status of every answer of success. */
export const SUCCESS = "success" as const;

export const keyMode = () => z.enum(["PROD", "TEST"]).meta({ examples: ["PROD"] });

/** For whom and for which order a write is. */
export const orderFields = {
  customer_name: customerName()
    .optional()
    .meta({ examples: ["Ann Lee"] }),
  customer_email: customerEmail()
    .optional()
    .meta({ examples: ["ann@example.com"] }),
  customer_id: customerId()
    .optional()
    .meta({ description: "The shop's id of the customer.", examples: ["7701"] }),
  order_id: orderId()
    .optional()
    .meta({ examples: ["#1001"] }),
};

export const notesField = notes()
  .optional()
  .meta({ description: "Kept with the record.", examples: ["loyalty redemption"] });

const orNull = (given: string | undefined): string | null =>
  given === undefined || given === "" ? null : given;

/** What a write's body tells; an empty text tells nothing. */
export const customerDetailsOf = (body: {
  readonly customer_name?: string | undefined;
  readonly customer_email?: string | undefined;
  readonly customer_id?: string | undefined;
  readonly order_id?: string | undefined;
  readonly notes?: string | undefined;
}): CustomerDetails => ({
  customerName: orNull(body.customer_name),
  customerEmail: orNull(body.customer_email),
  customerId: orNull(body.customer_id),
  orderId: orNull(body.order_id),
  notes: orNull(body.notes),
});

/** The query parameters that choose a customer's records; an empty one chooses nothing. */
export const customerParameters = {
  customer_name: customerName()
    .optional()
    .meta({ description: "A part of the name, whatever the case.", examples: ["ann"] }),
  customer_email: customerEmail()
    .optional()
    .meta({ description: "The address, whatever the case.", examples: ["ann@example.com"] }),
  email: customerEmail()
    .optional()
    .meta({ description: "The same as customer_email.", examples: ["ann@example.com"] }),
  customer_id: customerId()
    .optional()
    .meta({ description: "The shop's id of the customer.", examples: ["7701"] }),
  customer: anyCustomer()
    .optional()
    .meta({ description: "A part of the name, or the address, or the id.", examples: ["ann"] }),
};

const given = (value: string | undefined): value is string => value !== undefined && value !== "";

export const customerFilterOf = (query: {
  readonly customer_name?: string | undefined;
  readonly customer_email?: string | undefined;
  readonly email?: string | undefined;
  readonly customer_id?: string | undefined;
  readonly customer?: string | undefined;
}): CustomerFilter => {
  const emails = [query.customer_email, query.email].filter(given);
  return {
    ...(given(query.customer_name) ? { name: query.customer_name } : {}),
    ...(emails.length === 0 ? {} : { emails }),
    ...(given(query.customer_id) ? { id: query.customer_id } : {}),
    ...(given(query.customer) ? { any: query.customer } : {}),
  };
};
