import {
  BatchRejectedError,
  DomainError,
  mustExist,
  OutageError,
} from "../../runtime/errors.rules.ts";

export const MAXIMUM_ITEMS = 1000;

/** The result of an item of a batch, or why it was rejected. */
export type Outcome<Done> = Done | DomainError;

export const isAccepted = <Done>(outcome: Outcome<Done>): outcome is Done =>
  !(outcome instanceof DomainError);

export const asRejection = (error: unknown): DomainError => {
  if (error instanceof DomainError) {
    return error;
  }
  throw error;
};

/** Returns what the work returns, or the error by which it rejects the item. */
export const outcomeOf = <Done>(work: () => Done): Outcome<Done> => {
  try {
    return work();
  } catch (error) {
    return asRejection(error);
  }
};

/**
 * Returns the result of a batch of one.
 * @throws DomainError if its item was rejected, or the outage that was the reason
 */
export const resultOfOne = <Done>([first]: readonly Outcome<Done>[]): Done => {
  const outcome = mustExist(first, "A batch of one has no outcome.");
  if (isAccepted(outcome)) {
    return outcome;
  }
  throw outcome.cause instanceof OutageError ? outcome.cause : outcome;
};

export const rejectionsOf = (outcomes: readonly unknown[]): ReadonlyMap<number, DomainError> =>
  new Map(
    outcomes.flatMap((outcome, index) =>
      outcome instanceof DomainError ? [[index, outcome]] : [],
    ),
  );

/** @throws BatchRejectedError if an item is rejected */
export const requireAll = (outcomes: readonly unknown[]): void => {
  const rejections = rejectionsOf(outcomes);
  if (rejections.size > 0) {
    throw new BatchRejectedError(rejections, outcomes.length);
  }
};

/** @throws TypeError if an item has no outcome yet, but undefined or a symbol */
export const requireDecided = <Done>(
  outcomes: readonly (Outcome<Done> | symbol | undefined)[],
): readonly Outcome<Done>[] =>
  outcomes.map((outcome) => {
    if (outcome === undefined || typeof outcome === "symbol") {
      throw new TypeError("An item of a batch was not decided.");
    }
    return outcome;
  });

/** Returns why each item was rejected, or else what was decided of the others, in their order. */
export const completeOutcomes = <Item, Done>(
  items: readonly Outcome<Item>[],
  decided: readonly Outcome<Done>[],
): readonly Outcome<Done>[] => {
  const next = decided.values();
  return requireDecided(items.map((item) => (isAccepted(item) ? next.next().value : item)));
};

/**
 * Presents the decisions of a batch with their owner's total after each, counted back from the last one.
 * @param changeOf what the decision has added to the total; negative for a refund
 */
export const countBack = <Decision, Item>(
  outcomes: readonly Outcome<Decision>[],
  finalTotal: number,
  changeOf: (decision: Decision) => number,
  present: (decision: Decision, total: number) => Item,
): readonly Outcome<Item>[] => {
  let total = finalTotal;
  return outcomes
    .toReversed()
    .map((outcome) => {
      if (outcome instanceof DomainError) {
        return outcome;
      }
      const item = present(outcome, total);
      total -= changeOf(outcome);
      return item;
    })
    .toReversed();
};
