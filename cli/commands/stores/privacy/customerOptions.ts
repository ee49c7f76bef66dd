import type { Command } from "commander";
import { SHORT_TEXT_LENGTH } from "../../../../domain/fields.ts";
import { identifyCustomer } from "../../../../domain/stores/customerIdentity.ts";
import type { CustomerIdentity } from "../../../../domain/stores/customerIdentity.ts";
import { collect, nonBlank, parserOf } from "../../../arguments.ts";
import { CommandError, EXIT } from "../../../exitCodes.ts";

/** The options that name a customer; each may be given several times. */
export type CustomerOptions = {
  readonly customerId?: readonly string[];
  readonly customerEmail?: readonly string[];
  readonly orderId?: readonly string[];
};

const parseIdentifiers = collect(
  parserOf(nonBlank(SHORT_TEXT_LENGTH), `1 to ${SHORT_TEXT_LENGTH} characters`),
);

export const addCustomerOptions = (command: Command): Command =>
  command
    .option(
      "--customer-id <id>",
      "the customer's id in the shop; may be repeated",
      parseIdentifiers,
    )
    .option("--customer-email <email>", "email address; may be repeated", parseIdentifiers)
    .option("--order-id <id>", "order of the customer; may be repeated", parseIdentifiers);

/** @throws CommandError if no customer is named */
export const customerOf = ({
  customerId = [],
  customerEmail = [],
  orderId = [],
}: CustomerOptions): CustomerIdentity => {
  if (customerId.length + customerEmail.length + orderId.length === 0) {
    throw new CommandError(
      EXIT.usage,
      "Name the customer: --customer-id, --customer-email or --order-id.",
    );
  }
  return identifyCustomer({ ids: customerId, emails: customerEmail, orderIds: orderId });
};
