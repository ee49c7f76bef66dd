import { changeBalance } from "../../../services/stores/balance/changeBalance.ts";
import { formatCents } from "../../../domain/money.ts";
import type { CliContext } from "../../context.ts";
import { say } from "../../io.ts";
import { openChange } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { printJson, printText } from "../../output/print.ts";
import { findNamedStore } from "../../accountOptions.ts";

export type TopUpOptions = ChangeOptions & {
  readonly amount: number;
  readonly reference?: string;
  readonly note?: string;
};

export const topUpStore = async (
  context: CliContext,
  idOrDomain: string,
  { amount, reference: given, note = "", json, ...operator }: TopUpOptions,
): Promise<void> => {
  const { io } = context;
  const deps = await openChange(context, operator);
  const { id, domain } = await findNamedStore(deps.db, idOrDomain);
  const { balanceCents, reference, replayed } = await changeBalance(deps, {
    kind: "topup",
    storeId: id,
    amountCents: amount,
    reference: given ?? null,
    note,
  });
  if (json) {
    printJson(io, { id, domain, balance_cents: balanceCents, reference, replayed });
  } else {
    const result = replayed
      ? `Nothing added: the top-up ${reference} of ${domain} is already recorded`
      : `Topped up ${domain} by ${formatCents(amount)} (reference ${reference})`;
    printText(io, `${result}; balance ${formatCents(balanceCents)}`);
  }
  if (replayed && given === undefined) {
    say(io, "To add another payment of this amount today, pass --reference.");
  }
};
