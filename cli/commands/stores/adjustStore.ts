import { changeBalance } from "../../../services/stores/balance/changeBalance.ts";
import { formatCents } from "../../../domain/money.ts";
import type { CliContext } from "../../context.ts";
import { openChange } from "../../operator.ts";
import type { ReasonedOptions } from "../../operator.ts";
import { printJson, printText } from "../../output/print.ts";
import { findNamedStore } from "../../accountOptions.ts";

export type AdjustOptions = ReasonedOptions & {
  readonly amount: number;
  readonly reference?: string;
};

export const adjustStore = async (
  context: CliContext,
  idOrDomain: string,
  { amount, reference, reason, as, json }: AdjustOptions,
): Promise<void> => {
  const { io } = context;
  const deps = await openChange(context, { as, reason });
  const { id, domain } = await findNamedStore(deps.db, idOrDomain);
  const { balanceCents, replayed } = await changeBalance(deps, {
    kind: "adjustment",
    storeId: id,
    amountCents: amount,
    reference: reference ?? null,
    note: reason,
  });
  if (json) {
    printJson(io, {
      id,
      domain,
      balance_cents: balanceCents,
      reference: reference ?? null,
      replayed,
    });
    return;
  }
  const named = reference === undefined ? "" : ` (reference ${reference})`;
  const result = replayed
    ? `Nothing changed: the adjustment ${reference} of ${domain} is already recorded`
    : `Adjusted the balance of ${domain} by ${formatCents(amount)}${named}`;
  printText(io, `${result}; balance ${formatCents(balanceCents)}`);
};
