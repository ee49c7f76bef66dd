import { formatCents } from "../../../domain/money.ts";
import { isBalanceLow } from "../../../domain/stores/stores.ts";
import type { CliContext } from "../../context.ts";
import { printJson, printRecord } from "../../output/print.ts";
import type { JsonOption } from "../../output/print.ts";
import { findNamedStore } from "../../accountOptions.ts";

export const showBalance = async (
  { io, connections }: CliContext,
  idOrDomain: string,
  { json }: JsonOption,
): Promise<void> => {
  const store = await findNamedStore(await connections.database(), idOrDomain);
  const isLow = isBalanceLow(store);
  if (json) {
    printJson(io, {
      id: store.id,
      domain: store.domain,
      balance_cents: store.balanceCents,
      low_balance_cents: store.lowBalanceCents,
      low_balance: isLow,
    });
    return;
  }
  printRecord(io, {
    store: store.domain,
    balance: formatCents(store.balanceCents),
    "low-balance threshold": formatCents(store.lowBalanceCents),
    "is low": isLow,
  });
};
