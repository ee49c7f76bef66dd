import { setImmediate as nextLoopIteration } from "node:timers/promises";
import { runForAll } from "../../runtime/client.ts";

/**
 * Returns a function that makes an account ready to be written. Writers write as long as accounts are ready.
 * @param maximumWriters how many write at the same time
 * @param writeNext takes accounts out of the set, in which they are in the order of their turns, and writes what they have
 */
export const createLane = <Account>(
  maximumWriters: number,
  writeNext: (ready: Set<Account>) => Promise<void>,
): ((account: Account) => void) => {
  const ready = new Set<Account>();
  let writers = 0;
  const writeAll = async (): Promise<void> => {
    writers += 1;
    // Requests that this iteration of the event loop still reads join the first batch.
    await nextLoopIteration();
    while (ready.size > 0) {
      await writeNext(ready);
      if (ready.size === 0) {
        // Requests that arrive while the last responses are sent are written as well.
        await nextLoopIteration();
      }
    }
    writers -= 1;
  };
  return (account) => {
    ready.add(account);
    if (writers < maximumWriters) {
      void runForAll(writeAll);
    }
  };
};
