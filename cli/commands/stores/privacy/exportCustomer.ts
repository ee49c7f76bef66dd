import { presentCustomerExport } from "../../../../services/stores/privacy/presentCustomerExport.ts";
import { exportCustomer as readCustomer } from "../../../../services/stores/privacy/exportCustomer.ts";
import type { CliContext } from "../../../context.ts";
import { say } from "../../../io.ts";
import { openChange } from "../../../operator.ts";
import type { OperatorOptions } from "../../../operator.ts";
import { printJson } from "../../../output/print.ts";
import { findNamedStore } from "../../../accountOptions.ts";
import { customerOf } from "./customerOptions.ts";
import type { CustomerOptions } from "./customerOptions.ts";

export type ExportOptions = OperatorOptions & CustomerOptions;

export const exportCustomer = async (
  context: CliContext,
  named: string,
  options: ExportOptions,
): Promise<void> => {
  const { io } = context;
  const customer = customerOf(options);
  const deps = await openChange(context, options);
  const { id, domain } = await findNamedStore(deps.db, named);
  const found = await readCustomer(deps, id, customer);
  printJson(io, { id, domain, ...presentCustomerExport(found) });
  if (found.hasMore) {
    say(io, "There are more records; these are the newest.");
  }
};
