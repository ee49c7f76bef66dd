import { listReadyStreams, listResumableStreams } from "./waitingStreams.sql.ts";
import type { UnsentStream } from "./waitingStreams.sql.ts";
import { lastSealableSecond } from "../usage.rules.ts";
import { createScan } from "../../../db/createScan.ts";
import type { Scan } from "../../../db/createScan.ts";
import type { Context } from "../../../runtime/context.ts";

/** While usage waits to be found, part of Stripe's rate is lost, so this scan may take more of the time than others. */
const SCAN_SHARE = 0.25;

/**
 * Creates the scan for streams with something to send: usage that may be sealed, or an event that may be attempted. Each steps
 * through one index. One scan for both would read the rows that are done in one index again for each stream of the other, as long
 * as an open snapshot keeps them.
 * @param monotonicMs milliseconds of the monotonic clock
 */
export const createStreamScan = (
  { db, clock }: Context,
  monotonicMs?: () => number,
): Scan<UnsentStream> => {
  const options = { share: SCAN_SHARE, monotonicMs };
  const scans = [
    createScan<UnsentStream>(
      clock,
      (page) => listReadyStreams(db, { ...page, lastSecond: lastSealableSecond(page.now) }),
      options,
    ),
    createScan<UnsentStream>(clock, (page) => listResumableStreams(db, page), options),
  ];
  return async () => {
    const found = await Promise.all(scans.map((scan) => scan()));
    return found.every((streams) => streams === null)
      ? null
      : found.flatMap((streams) => streams ?? []);
  };
};
