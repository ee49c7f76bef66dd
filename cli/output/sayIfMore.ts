import type { Io } from "../io.ts";
import { say } from "../io.ts";

/** Says that a list was cut. Commands read one row more than they show, to know whether there are more. */
export const sayIfMore = (io: Io, found: number, limit: number): void => {
  if (found > limit) {
    say(io, `Showing the first ${limit}. To see more, raise --limit.`);
  }
};

/** Says how to list the entries that follow a list which was cut. Commands read one entry more than they show. */
export const sayIfOlder = (
  io: Io,
  found: readonly { readonly id: string | number }[],
  limit: number,
): void => {
  const last = found[limit - 1];
  if (last && found.length > limit) {
    say(io, `For older entries, use --before ${last.id}.`);
  }
};
