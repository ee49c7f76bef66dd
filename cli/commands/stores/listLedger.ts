import { listBalanceEntries } from "../../../db/stores/balances.ts";
import type { BalanceEntry } from "../../../db/stores/balances.ts";
import { formatCents } from "../../../domain/money.ts";
import type { CliContext } from "../../context.ts";
import { printList } from "../../output/print.ts";
import { sayIfOlder } from "../../output/sayIfMore.ts";
import { findNamedStore } from "../../accountOptions.ts";

export type LedgerOptions = {
  readonly limit: number;
  readonly before?: number;
  readonly json?: true;
};

const presentEntry = (entry: BalanceEntry) => ({
  id: entry.id,
  kind: entry.kind,
  amount_cents: entry.amountCents,
  balance_cents: entry.balanceCents,
  quantity: entry.quantity,
  record_id: entry.recordId,
  reference: entry.reference,
  note: entry.note,
  created_at: entry.createdAt,
});

export const listLedger = async (
  { io, connections }: CliContext,
  idOrDomain: string,
  { limit, before, json }: LedgerOptions,
): Promise<void> => {
  const db = await connections.database();
  const store = await findNamedStore(db, idOrDomain);
  const found = await listBalanceEntries(db, store.id, {
    before: before === undefined ? null : String(before),
    limit: limit + 1,
  });
  printList({ io, json }, found.slice(0, limit), presentEntry, {
    entry: (entry) => entry.id,
    at: (entry) => entry.createdAt,
    kind: (entry) => entry.kind,
    quantity: (entry) => entry.quantity,
    amount: (entry) => formatCents(entry.amountCents),
    balance: (entry) => formatCents(entry.balanceCents),
    reference: (entry) => entry.reference,
    note: (entry) => entry.note,
  });
  sayIfOlder(io, found, limit);
};
