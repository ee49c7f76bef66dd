import type { Command } from "commander";
import type { CliContext } from "../../../context.ts";
import { operatorOption, reasonOption, withAudit } from "../../../operator.ts";
import { addCustomerOptions } from "./customerOptions.ts";
import type { ExportOptions } from "./exportCustomer.ts";
import { exportCustomer } from "./exportCustomer.ts";
import type { ForgetOptions } from "./forget.ts";
import { forget } from "./forget.ts";

const STORE = "domain or id of the store";

const CUSTOMER_HELP = `
Records that match any of the ids and addresses are selected. A customer id also selects
the records of the customer's email addresses, and an email address those of its customer
id, unless several customers share the address. Both select records that have only the
same name.`;

const FORGET_HELP = `${CUSTOMER_HELP}

Names, email addresses, customer and order ids, notes, reasons of refunds and stored
responses are erased in both modes. Counts, prices and amounts stay. It cannot be undone,
and may be repeated.`;

export const addPrivacyCommands = (store: Command, context: CliContext): void => {
  addCustomerOptions(
    store
      .command("export-customer")
      .description("Print everything that a store's records say about a customer, as JSON")
      .argument("<store>", STORE),
  )
    .addOption(reasonOption())
    .addOption(operatorOption())
    .addHelpText("after", CUSTOMER_HELP)
    .action((named: string, options: ExportOptions) => exportCustomer(context, named, options));
  withAudit(
    addCustomerOptions(
      store
        .command("forget")
        .description("Erase a customer's personal data from a store's records")
        .argument("<store>", STORE),
    )
      .option(
        "--all-customers",
        "erase the personal data of all customers, even of an uninstalled store",
      )
      .option("--yes", "confirm --all-customers")
      .option("--dry-run", "count only"),
  )
    .addHelpText("after", FORGET_HELP)
    .action((named: string, options: ForgetOptions) => forget(context, named, options));
};
