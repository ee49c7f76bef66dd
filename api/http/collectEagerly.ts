import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** How much of an answer's text may wait to be collected. */
const UNCOLLECTED_BYTES = 8 * 1024 * 1024;

const exposeCollector = (): ((options: { readonly type: "minor" }) => void) => {
  setFlagsFromString("--expose-gc");
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- V8's own function, which every new context has by that flag.
  const collect = runInNewContext("gc") as ReturnType<typeof exposeCollector>;
  setFlagsFromString("--no-expose-gc");
  return collect;
};

const collect = exposeCollector();

/**
 * Passes the pieces of a long answer on and has V8 collect the young ones among its objects now and then. Bytes that
 * were sent are garbage at once, but V8 knows little of memory outside of its heap: by itself it lets 64 MiB pile up.
 */
export async function* collectEagerly<Piece extends string | Buffer>(
  pieces: AsyncIterable<Piece>,
): AsyncGenerator<Piece, void, void> {
  let uncollectedBytes = 0;
  for await (const piece of pieces) {
    uncollectedBytes += piece.length;
    if (uncollectedBytes > UNCOLLECTED_BYTES) {
      uncollectedBytes = 0;
      collect({ type: "minor" });
    }
    yield piece;
  }
}
