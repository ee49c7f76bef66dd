import { watchMachine } from "./watchMachine.ts";

/** Highest CPU share of other processes at which a round counts as undisturbed. */
const UNDISTURBED = 0.05;

/** At most this many times the requested rounds are run. */
const MAXIMUM_FACTOR = 3;

/**
 * Runs rounds of a measurement until enough of them were undisturbed by other processes, or the maximum is reached.
 * @param report receives each round and the CPU share of other processes from 0 to 1, null if unknown
 * @returns the least disturbed rounds
 */
export const repeatUndisturbed = async <Round>(
  rounds: number,
  measure: () => Promise<Round>,
  report: (round: Round, others: number | null) => void,
): Promise<readonly Round[]> => {
  const done: { readonly result: Round; readonly others: number }[] = [];
  const countUndisturbed = (): number => done.filter(({ others }) => others <= UNDISTURBED).length;
  while (countUndisturbed() < rounds && done.length < rounds * MAXIMUM_FACTOR) {
    const readOtherShare = await watchMachine();
    const result = await measure();
    const others = await readOtherShare();
    report(result, others);
    done.push({ result, others: others ?? 0 });
  }
  return done
    .toSorted((left, right) => left.others - right.others)
    .slice(0, rounds)
    .map(({ result }) => result);
};
