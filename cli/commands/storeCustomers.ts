import { Option } from "@commander-js/extra-typings";
import type { Command } from "@commander-js/extra-typings";
import { counted } from "../../runtime/counted.rules.ts";
import { identifyCustomer } from "../../modules/stores/customers.rules.ts";
import type { CustomerIdentity } from "../../modules/stores/customers.rules.ts";
import { exportCustomer, forgetCustomer } from "../../modules/stores/customerData.ts";
import { STORE, findNamedStore } from "../accountOptions.ts";
import { collect, parseSearchText } from "../arguments.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { addChange } from "../command.ts";
import type { Define } from "../command.ts";

const parseIdentifiers = collect(parseSearchText);

const addCustomerCommand = (store: Command, name: string, description: string) =>
  addChange(store, name, description)
    .argument(...STORE)
    .option(
      "--customer-id <id>",
      "the customer's id in the shop; may be repeated",
      parseIdentifiers,
    )
    .option("--customer-email <email>", "email address; may be repeated", parseIdentifiers)
    .option("--order-id <id>", "order of the customer; may be repeated", parseIdentifiers);

/** @throws DomainError request_invalid if no customer is named */
const customerOf = ({
  customerId = [],
  customerEmail = [],
  orderId = [],
}: Readonly<
  Partial<Record<"customerId" | "customerEmail" | "orderId", readonly string[]>>
>): CustomerIdentity => {
  if (customerId.length + customerEmail.length + orderId.length === 0) {
    throw invalidRequest("Name the customer: --customer-id, --customer-email or --order-id.");
  }
  return identifyCustomer({ ids: customerId, emails: customerEmail, orderIds: orderId });
};

const CUSTOMER_HELP = `
Records that match any of the ids and addresses are selected. A customer id also selects
the records of the customer's email addresses, and an email address those of its customer
id, unless several customers share the address. Both select records that have only the
same name.`;

const FORGET_HELP = `${CUSTOMER_HELP}

Names, email addresses, customer and order ids, notes, reasons of refunds and stored
responses are erased in both modes. Counts, prices and amounts stay. It cannot be undone,
and may be repeated. export-customer shows what is erased.`;

export const addPrivacyCommands: Define = (store, cli) => {
  addCustomerCommand(
    store,
    "export-customer",
    "Print everything that a store's records say about a customer, as JSON",
  )
    .addHelpText("after", CUSTOMER_HELP)
    .action(async (named, options) => {
      const customer = customerOf(options);
      const deps = await cli.openChange(options);
      const { id, domain } = await findNamedStore(deps.db, named);
      const found = await exportCustomer(deps, id, customer);
      cli.printJson({ id, domain, ...found });
      if (found.has_more) {
        cli.say("There are more records; these are the newest.");
      }
    });

  addCustomerCommand(store, "forget", "Erase a customer's personal data from a store's records")
    .addOption(
      new Option(
        "--all-customers",
        "erase the personal data of all customers, even of an uninstalled store",
      ).conflicts(["customerId", "customerEmail", "orderId"]),
    )
    .option("--yes", "confirm --all-customers")
    .addHelpText("after", FORGET_HELP)
    .action(async (named, options) => {
      const customer = options.allCustomers ? null : customerOf(options);
      const deps = await cli.openChange(options);
      const { id, domain } = await findNamedStore(deps.db, named);
      if (customer === null && !options.yes) {
        throw invalidRequest(
          `This erases the personal data of all customers of ${domain}, and cannot be undone. To confirm, pass --yes.`,
        );
      }
      const { registrations, donations } = await forgetCustomer(deps, id, customer);
      cli.printResult({ id, domain, registrations, donations });
      cli.say(
        `Erased the personal data of ${counted(registrations, "registration")} and ${counted(donations, "donation")} of ${domain}. Counts and amounts are unchanged.`,
      );
    });
};
