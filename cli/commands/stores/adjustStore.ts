import { adjustBalance } from "../../../services/stores/balance/adjustBalance.ts";
import { formatCents } from "../../../domain/money.ts";
import type { Context } from "../../context.ts";
import { actorOf } from "../../operator.ts";
import type { ReasonedOptions } from "../../operator.ts";
import { printJson, printText } from "../../output/print.ts";
import { findNamedStore } from "./findNamedStore.ts";

export type AdjustOptions = ReasonedOptions & {
  readonly amount: number;
  readonly json?: true;
};

export const adjustStore = async (
  { io, connections, clock }: Context,
  idOrDomain: string,
  { amount, reason, as, json }: AdjustOptions,
): Promise<void> => {
  const db = await connections.database();
  const { id, domain } = await findNamedStore(db, idOrDomain);
  const balanceCents = await adjustBalance(
    { db, clock, actor: actorOf({ as, reason }) },
    { storeId: id, amountCents: amount, reason },
  );
  if (json) {
    printJson(io, { id, domain, balance_cents: balanceCents });
    return;
  }
  printText(
    io,
    `Adjusted the balance of ${domain} by ${formatCents(amount)}; balance ${formatCents(balanceCents)}`,
  );
};
