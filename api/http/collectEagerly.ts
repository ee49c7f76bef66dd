import { setFlagsFromString } from "node:v8";

let underWay = 0;

/**
 * Has V8 collect the heap early as long as the work lasts. The text of a long answer is garbage as soon as it is sent, yet
 * by itself V8 lets some 100 MiB of it pile up, as if it were to stay. Not all the time, since every full
 * collection takes processor time from short requests.
 */
export const collectEagerly = async <Result>(work: () => Promise<Result>): Promise<Result> => {
  underWay += 1;
  setFlagsFromString("--heap-growing-percent=30");
  try {
    return await work();
  } finally {
    underWay -= 1;
    if (underWay === 0) {
      // V8's own choice.
      setFlagsFromString("--heap-growing-percent=0");
    }
  }
};
