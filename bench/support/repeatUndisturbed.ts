import { watchMachine } from "./watchMachine.ts";

/** Highest CPU share of other processes at which a round counts as undisturbed. */
const UNDISTURBED = 0.05;

/** Of the requested rounds. */
const MAXIMUM_FACTOR = 3;

/**
 * Runs rounds of a measurement until enough of them were undisturbed by other processes, or the maximum is reached.
 * @param log receives a line about each round
 * @returns the least disturbed rounds
 */
export const repeatUndisturbed = async <Round>(
  rounds: number,
  measure: () => Promise<Round>,
  describe: (round: Round) => string,
  log: (line: string) => void,
): Promise<readonly Round[]> => {
  const done: { readonly result: Round; readonly others: number }[] = [];
  const countUndisturbed = (): number => done.filter(({ others }) => others <= UNDISTURBED).length;
  while (countUndisturbed() < rounds && done.length < rounds * MAXIMUM_FACTOR) {
    const readOtherShare = await watchMachine();
    const result = await measure();
    const others = await readOtherShare();
    const share = others === null ? "?" : (others * 100).toFixed(0);
    log(`${describe(result)}; other processes ${share} % of CPU`);
    done.push({ result, others: others ?? 0 });
  }
  return done
    .toSorted((left, right) => left.others - right.others)
    .slice(0, rounds)
    .map(({ result }) => result);
};
