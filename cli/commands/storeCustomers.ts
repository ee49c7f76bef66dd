import { Option } from "@commander-js/extra-typings";
import type { Command, OptionValues } from "@commander-js/extra-typings";
import { counted } from "../../runtime/counted.rules.ts";
import { SHORT_TEXT_LENGTH } from "../../modules/records/fields.rules.ts";
import { identifyCustomer } from "../../modules/stores/customers.rules.ts";
import type { CustomerIdentity } from "../../modules/stores/customers.rules.ts";
import { exportCustomer, forgetCustomer } from "../../modules/stores/customerData.ts";
import { STORE, findNamedStore } from "../accountOptions.ts";
import { collect, nonBlank, parserOf } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import { openChange, operatorOption, reasonOption, withAudit } from "../operator.ts";
import { printJson, printResult } from "../output/print.ts";

type CustomerOptions = {
  readonly customerId?: readonly string[];
  readonly customerEmail?: readonly string[];
  readonly orderId?: readonly string[];
};

const parseIdentifiers = collect(
  parserOf(nonBlank(SHORT_TEXT_LENGTH), `1 to ${SHORT_TEXT_LENGTH} characters`),
);

const addCustomerOptions = <
  Args extends unknown[],
  Options extends OptionValues,
  Global extends OptionValues,
>(
  command: Command<Args, Options, Global>,
) =>
  command
    .option(
      "--customer-id <id>",
      "the customer's id in the shop; may be repeated",
      parseIdentifiers,
    )
    .option("--customer-email <email>", "email address; may be repeated", parseIdentifiers)
    .option("--order-id <id>", "order of the customer; may be repeated", parseIdentifiers);

/** @throws CommandError if no customer is named */
const customerOf = ({
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

const CUSTOMER_HELP = `
Records that match any of the ids and addresses are selected. A customer id also selects
the records of the customer's email addresses, and an email address those of its customer
id, unless several customers share the address. Both select records that have only the
same name.`;

const addExportCustomerCommand = (parent: Command, context: CliContext): void => {
  addCustomerOptions(
    parent
      .command("export-customer")
      .description("Print everything that a store's records say about a customer, as JSON")
      .argument(...STORE),
  )
    .addOption(reasonOption())
    .addOption(operatorOption())
    .addHelpText("after", CUSTOMER_HELP)
    .action(async (named, options) => {
      const { io } = context;
      const customer = customerOf(options);
      const deps = await openChange(context, options);
      const { id, domain } = await findNamedStore(deps.db, named);
      const found = await exportCustomer(deps, id, customer);
      printJson(io, { id, domain, ...found });
      if (found.has_more) {
        say(io, "There are more records; these are the newest.");
      }
    });
};

const FORGET_HELP = `${CUSTOMER_HELP}

Names, email addresses, customer and order ids, notes, reasons of refunds and stored
responses are erased in both modes. Counts, prices and amounts stay. It cannot be undone,
and may be repeated. export-customer shows what is erased.`;

const addForgetCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    addCustomerOptions(
      parent
        .command("forget")
        .description("Erase a customer's personal data from a store's records")
        .argument(...STORE),
    )
      .addOption(
        new Option(
          "--all-customers",
          "erase the personal data of all customers, even of an uninstalled store",
        ).conflicts(["customerId", "customerEmail", "orderId"]),
      )
      .option("--yes", "confirm --all-customers"),
  )
    .addHelpText("after", FORGET_HELP)
    .action(async (named, options) => {
      const { io } = context;
      const customer = options.allCustomers ? null : customerOf(options);
      const deps = await openChange(context, options);
      const { id, domain } = await findNamedStore(deps.db, named);
      if (customer === null && !options.yes) {
        throw new CommandError(
          EXIT.usage,
          `This erases the personal data of all customers of ${domain}, and cannot be undone. To confirm, pass --yes.`,
        );
      }
      const { registrations, donations } = await forgetCustomer(deps, id, customer);
      printResult(io, { id, domain, registrations, donations });
      say(
        io,
        `Erased the personal data of ${counted(registrations, "registration")} and ${counted(donations, "donation")} of ${domain}. Counts and amounts are unchanged.`,
      );
    });
};

export const addPrivacyCommands = (store: Command, context: CliContext): void => {
  addExportCustomerCommand(store, context);
  addForgetCommand(store, context);
};
