import type { Io } from "../io.ts";
import { say } from "../io.ts";

/** Says that a list was cut. Commands read one row more than they show, to know whether there are more. */
export const sayIfMore = (io: Io, found: number, limit: number): void => {
  if (found > limit) {
    say(io, `Showing the first ${limit}. To see more, raise --limit.`);
  }
};
