import type { AccountMode, Kind } from "../accounts/accounts.ts";
import { DomainError } from "../errors.ts";
import type { Prices, StoreOperation } from "./stores.ts";
import { balanceInsufficient } from "./stores.ts";

/** A store's write as far as its idempotency goes. */
export type StoreWrite = AccountMode & {
  readonly operation: StoreOperation;
  /** Null without a key. The hash, in hexadecimal digits, is of what is asked for. */
  readonly idempotency: { readonly key: string; readonly requestHash: string } | null;
  /** The body of the answer of success, which is known before the write is done. */
  readonly answer: string;
};

/** What a store's client is told. */
export type StoreAnswer = {
  readonly answer: string;
  /** Whether it is the one that the key got the first time. */
  readonly replayed: boolean;
};

/**
 * Answers a repeat with what its key got the first time.
 * @throws DomainError request_invalid when something else is asked for under the key
 */
export const replayAnswer = (
  { idempotency }: StoreWrite,
  kept: { readonly requestHash: string; readonly answer: string },
): StoreAnswer => {
  if (idempotency?.requestHash !== kept.requestHash) {
    throw new DomainError(
      "request_invalid",
      "Idempotency-Key: was used before with another request body",
    );
  }
  return { answer: kept.answer, replayed: true };
};

/** The name of a write's key among all keys. */
export const answerName = ({
  accountId,
  mode,
  operation,
  key,
}: Pick<StoreWrite, "accountId" | "mode" | "operation"> & { readonly key: string }): string =>
  `${accountId}/${mode}/${operation}/${key}`;

/** A write that plants or rescues. */
export type StoreImpact = StoreWrite & { readonly kind: Kind; readonly count: number };

/** A store's balance in the course of a batch. */
export type Funds = { readonly balanceCents: number; readonly prices: Prices };

/** What becomes of one write of a batch. */
export type StoreDecision<Impact> =
  | { readonly kind: "refused"; readonly error: DomainError }
  | { readonly kind: "replayed"; readonly answer: StoreAnswer }
  | {
      readonly kind: "accepted";
      readonly impact: Impact;
      readonly unitPriceCents: number;
      readonly costCents: number;
      /** The store's balance after it. */
      readonly balanceCents: number;
    };

const decide = <Impact extends StoreImpact>(
  impact: Impact,
  { balanceCents, prices }: Funds,
): StoreDecision<Impact> => {
  const unitPriceCents = impact.mode === "live" ? prices[impact.kind] : 0;
  // Beyond the safe integers it is inexact, but beyond every balance too.
  const costCents = impact.count * unitPriceCents;
  return costCents <= balanceCents
    ? {
        kind: "accepted",
        impact,
        unitPriceCents,
        costCents,
        balanceCents: balanceCents - costCents,
      }
    : { kind: "refused", error: balanceInsufficient(costCents, balanceCents) };
};

const replay = <Impact extends StoreImpact>(
  impact: Impact,
  kept: { readonly requestHash: string; readonly answer: string },
): StoreDecision<Impact> => {
  try {
    return { kind: "replayed", answer: replayAnswer(impact, kept) };
  } catch (error) {
    if (error instanceof DomainError) {
      return { kind: "refused", error };
    }
    throw error;
  }
};

/**
 * Decides a batch in its order, as if each write had come alone: what an earlier one spends or answers, a later one
 * finds spent or answered.
 * @param funds by account id; every account of the batch is in it
 * @param keptAnswers by `answerName`; every key of the batch that is known is in it
 */
export const decideBatch = <Impact extends StoreImpact>(
  batch: readonly Impact[],
  funds: ReadonlyMap<string, Funds>,
  keptAnswers: ReadonlyMap<string, { readonly requestHash: string; readonly answer: string }>,
): readonly StoreDecision<Impact>[] => {
  const current = new Map(funds);
  const answers = new Map(keptAnswers);
  return batch.map((impact) => {
    const own = current.get(impact.accountId);
    if (!own) {
      throw new Error(`Account ${impact.accountId} has no balance.`);
    }
    const { idempotency, answer } = impact;
    const name = idempotency && answerName({ ...impact, key: idempotency.key });
    const kept = name === null ? undefined : answers.get(name);
    if (kept) {
      return replay(impact, kept);
    }
    const decision = decide(impact, own);
    if (decision.kind === "accepted") {
      current.set(impact.accountId, { ...own, balanceCents: decision.balanceCents });
      if (name !== null && idempotency) {
        answers.set(name, { requestHash: idempotency.requestHash, answer });
      }
    }
    return decision;
  });
};
