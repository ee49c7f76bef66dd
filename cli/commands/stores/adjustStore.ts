import { changeBalance } from "../../../services/stores/balance/changeBalance.ts";
import { formatCents } from "../../../domain/money.ts";
import type { Context } from "../../context.ts";
import { actorOf } from "../../operator.ts";
import type { ReasonedOptions } from "../../operator.ts";
import { printJson, printText } from "../../output/print.ts";
import { findNamedStore } from "./findNamedStore.ts";

export type AdjustOptions = ReasonedOptions & {
  readonly amount: number;
  readonly reference?: string;
};

export const adjustStore = async (
  { io, connections, clock }: Context,
  idOrDomain: string,
  { amount, reference, reason, as, json }: AdjustOptions,
): Promise<void> => {
  const db = await connections.database();
  const { id, domain } = await findNamedStore(db, idOrDomain);
  const { balanceCents, replayed } = await changeBalance(
    { db, clock, actor: actorOf({ as, reason }) },
    {
      kind: "adjustment",
      storeId: id,
      amountCents: amount,
      reference: reference ?? null,
      note: reason,
    },
  );
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
