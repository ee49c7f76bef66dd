import type { Owner } from "../../records/owner.rules.ts";
import { listReadyStreams, listResumableStreams } from "./waitingStreams.sql.ts";
import type { ReadyStream } from "./waitingStreams.sql.ts";
import { lastSealableSecond } from "../usage.rules.ts";
import { createScanPace } from "../../../db/createScanPace.ts";
import type { ScanPace } from "../../../db/createScanPace.ts";
import { createShardScans } from "../../../db/createShardScans.ts";
import type { ScanShard } from "../../../db/createShardScans.ts";
import type { Context } from "../../../runtime/context.ts";
import { leaseOf } from "./attemptLease.ts";

export type StreamScans = {
  /** Scans for streams with usage that may be sealed. */
  readonly ready: ScanShard<ReadyStream>;
  /** Scans for streams whose unfinished event a shard's sender continues with. */
  readonly resumable: ScanShard<Owner>;
};

const idOf = ({ accountId }: Owner): string => accountId;

/** While usage waits to be found, part of Stripe's rate is lost, so this scan may take more of the time than others. */
const READY_SHARE = 0.25;

/**
 * Creates the scans of a worker's shards for usage to send.
 * @param createPace creates the pace of a kind of scan. Without a share, the pace has its default.
 */
export const createStreamScans = (
  { db, clock }: Context,
  createPace: (share?: number) => ScanPace = createScanPace,
): StreamScans => {
  return {
    ready: createShardScans<ReadyStream>({
      clock,
      pace: createPace(READY_SHARE),
      list: ({ after, now, limit }) =>
        listReadyStreams(db, { after, lastSecond: lastSealableSecond(now), limit }),
      idOf,
    }),
    resumable: createShardScans<Owner>({
      clock,
      pace: createPace(),
      list: ({ after, now, limit }) =>
        listResumableStreams(db, { after, lease: leaseOf({ at: now }), limit }),
      idOf,
    }),
  };
};
