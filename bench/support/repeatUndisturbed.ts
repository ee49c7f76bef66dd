import { watchMachine } from "./watchMachine.ts";

/** More than this of the machine, taken by others, and a round says little about us. */
const DISTURBED = 0.05;

/** How many times the rounds that were asked for are tried at most. */
const PATIENCE = 3;

/**
 * Does rounds of a measurement until enough of them were undisturbed by other programs, or patience ends.
 * @param round does one and tells about it; `others` is the share of the machine, 0 to 1, that others took
 * @returns the least disturbed ones
 */
export const repeatUndisturbed = async <Round>(
  rounds: number,
  round: (number: number) => Promise<Round>,
  report: (round: Round, others: number | null) => void,
): Promise<readonly Round[]> => {
  const done: { readonly result: Round; readonly others: number }[] = [];
  const calm = (): number => done.filter(({ others }) => others <= DISTURBED).length;
  while (calm() < rounds && done.length < rounds * PATIENCE) {
    const readOthers = await watchMachine();
    const result = await round(done.length + 1);
    const others = await readOthers();
    report(result, others);
    done.push({ result, others: others ?? 0 });
  }
  return done
    .toSorted((left, right) => left.others - right.others)
    .slice(0, rounds)
    .map(({ result }) => result);
};
