import { counted } from "../../../../domain/counted.ts";
import type { Store } from "../../../../db/stores/stores.ts";
import { forgetAllCustomers } from "../../../../services/stores/privacy/forgetAllCustomers.ts";
import { forgetCustomer } from "../../../../services/stores/privacy/forgetCustomer.ts";
import type { CliContext } from "../../../context.ts";
import { CommandError, EXIT } from "../../../exitCodes.ts";
import { say } from "../../../io.ts";
import { openChange } from "../../../operator.ts";
import type { ChangeOptions } from "../../../operator.ts";
import { printJson } from "../../../output/print.ts";
import { findNamedStore } from "../../../accountOptions.ts";
import { customerOf } from "./customerOptions.ts";
import type { CustomerOptions } from "./customerOptions.ts";

export type ForgetOptions = ChangeOptions &
  CustomerOptions & {
    readonly allCustomers?: true;
    readonly yes?: true;
    readonly dryRun?: true;
  };

const forgetAll = async (context: CliContext, { id, domain }: Store, options: ForgetOptions) => {
  if (options.customerId ?? options.customerEmail ?? options.orderId) {
    throw new CommandError(
      EXIT.usage,
      "--all-customers cannot be combined with a customer or an order.",
    );
  }
  const isDryRun = options.dryRun === true;
  if (!isDryRun && !options.yes) {
    throw new CommandError(
      EXIT.usage,
      `This erases the personal data of all customers of ${domain}, and cannot be undone. Check with --dry-run, then pass --yes.`,
    );
  }
  return forgetAllCustomers(await openChange(context, options), id, { isDryRun });
};

export const forget = async (
  context: CliContext,
  named: string,
  options: ForgetOptions,
): Promise<void> => {
  const { io } = context;
  const customer = options.allCustomers ? null : customerOf(options);
  const isDryRun = options.dryRun === true;
  const deps = await openChange(context, options);
  const store = await findNamedStore(deps.db, named);
  const { id, domain } = store;
  const { registrations, donations } = customer
    ? await forgetCustomer(deps, id, customer, { isDryRun })
    : await forgetAll(context, store, options);
  if (options.json) {
    printJson(io, { id, domain, registrations, donations, dry_run: isDryRun });
  }
  const records = `${counted(registrations, "registration")} and ${counted(donations, "donation")} of ${domain}`;
  say(
    io,
    isDryRun
      ? `With${customer ? "out" : " --yes instead of"} --dry-run, the command erases the personal data of ${records}.`
      : `Erased the personal data of ${records}. Counts and amounts are unchanged.`,
  );
};
