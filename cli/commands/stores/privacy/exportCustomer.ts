import { presentCustomerExport } from "../../../../program/presentCustomerExport.ts";
import { exportCustomer as readCustomer } from "../../../../services/stores/privacy/exportCustomer.ts";
import type { Context } from "../../../context.ts";
import { say } from "../../../io.ts";
import { actorOf } from "../../../operator.ts";
import type { OperatorOptions } from "../../../operator.ts";
import { printJson } from "../../../output/print.ts";
import { findNamedStore } from "../findNamedStore.ts";
import { customerOf } from "./customerOptions.ts";
import type { CustomerOptions } from "./customerOptions.ts";

export type ExportOptions = OperatorOptions & CustomerOptions;

export const exportCustomer = async (
  { io, connections, clock }: Context,
  named: string,
  options: ExportOptions,
): Promise<void> => {
  const customer = customerOf(options);
  const db = await connections.database();
  const { id, domain } = await findNamedStore(db, named);
  const found = await readCustomer({ db, clock, actor: actorOf(options) }, id, customer);
  printJson(io, { id, domain, ...presentCustomerExport(found) });
  if (found.hasMore) {
    say(io, "There are more records; these are the newest.");
  }
};
