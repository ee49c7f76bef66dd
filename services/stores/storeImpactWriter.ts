import type { DatabasePool } from "slonik";
import { v7 as newId } from "uuid";
import { findAnswers, insertAnswers } from "../../db/stores/idempotentAnswers.ts";
import { insertBalanceEntries, lockBalances } from "../../db/stores/storeBalances.ts";
import { insertStoreRegistrations } from "../../db/registrations/storeRegistrations.ts";
import { addToTotals } from "../../db/registrations/totals.ts";
import type { Clock } from "../../domain/clock.ts";
import type { CustomerDetails } from "../../domain/stores/customers.ts";
import type {
  Funds,
  StoreAnswer,
  StoreDecision,
  StoreImpact,
} from "../../domain/stores/storeWrites.ts";
import { answerName, decideBatch } from "../../domain/stores/storeWrites.ts";
import type { BatchObserver } from "../groupCommit.ts";
import { createGroupCommit } from "../groupCommit.ts";

/** Trees to plant or bottles to rescue for a store. */
type NewStoreImpact = StoreImpact & CustomerDetails;

export type StoreImpactWriter = {
  /**
   * Records an impact action and pays for it from the balance.
   * @throws DomainError balance_insufficient, queue_full, or request_invalid when something else was asked for under
   *   the idempotency key
   */
  readonly write: (impact: NewStoreImpact) => Promise<StoreAnswer>;
  /** Resolves when all that was waiting has been answered. */
  readonly drain: () => Promise<void>;
  readonly queueLength: () => number;
};

type Entry = NewStoreImpact & { readonly id: string };
type Accepted = Extract<StoreDecision<Entry>, { readonly kind: "accepted" }>;

const keysOf = (batch: readonly Entry[]) =>
  batch.flatMap(({ accountId, mode, operation, idempotency }) =>
    idempotency === null ? [] : [{ accountId, mode, operation, key: idempotency.key }],
  );

const toBalanceEntry = ({ impact, costCents, balanceCents }: Accepted) => ({
  accountId: impact.accountId,
  kind: impact.kind,
  amountCents: -costCents,
  balanceCents,
  quantity: impact.count,
  registrationId: impact.id,
  donationId: null,
  reference: null,
  note: "",
});

/** Writes the registrations of stores by group commit: a write that the balance does not cover is left out alone. */
export const createStoreImpactWriter = ({
  db,
  clock,
  observeBatch,
  maximumWaiting,
}: {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly observeBatch?: BatchObserver;
  readonly maximumWaiting?: number;
}): StoreImpactWriter => {
  const writeBatch = (batch: readonly Entry[]): Promise<readonly StoreDecision<Entry>[]> =>
    db.transaction(async (transaction) => {
      const accountIds = [...new Set(batch.map(({ accountId }) => accountId))];
      const balances = await lockBalances(transaction, accountIds);
      const funds = new Map(
        balances.map(
          ({ accountId, balanceCents, treePriceCents, bottlePriceCents }): [string, Funds] => [
            accountId,
            { balanceCents, prices: { tree: treePriceCents, bottle: bottlePriceCents } },
          ],
        ),
      );
      // Under the locks: whoever had one of the keys first has committed.
      const kept = await findAnswers(transaction, keysOf(batch));
      const decisions = decideBatch(
        batch,
        funds,
        new Map(kept.map((answer) => [answerName(answer), answer])),
      );
      const accepted = decisions.filter((decision) => decision.kind === "accepted");
      if (accepted.length > 0) {
        const createdAt = clock.now();
        const impacts = accepted.map(({ impact, unitPriceCents }) => ({
          ...impact,
          unitPriceCents,
        }));
        await insertStoreRegistrations(transaction, impacts, createdAt);
        await addToTotals(transaction, impacts, createdAt);
        const spent = accepted.filter(({ costCents }) => costCents > 0);
        await insertBalanceEntries(transaction, spent.map(toBalanceEntry), createdAt);
        await insertAnswers(
          transaction,
          impacts.flatMap((impact) =>
            impact.idempotency === null ? [] : [{ ...impact, ...impact.idempotency }],
          ),
          createdAt,
        );
      }
      return decisions;
    });

  const queue = createGroupCommit({
    write: writeBatch,
    ownerOf: ({ accountId, mode, kind }) => `${accountId}/${mode}/${kind}`,
    observeBatch,
    maximumWaiting,
  });
  return {
    write: async (impact) => {
      const decision = await queue.submit({ ...impact, id: newId() });
      switch (decision.kind) {
        case "refused":
          throw decision.error;
        case "replayed":
          return decision.answer;
        case "accepted":
          return { answer: impact.answer, replayed: false };
      }
    },
    drain: queue.drain,
    queueLength: queue.queueLength,
  };
};
