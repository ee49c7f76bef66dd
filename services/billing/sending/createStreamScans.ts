import type { CommonQueryMethods } from "slonik";
import { listReadyStreams } from "../../../db/billing/sending/usageShards.ts";
import type { UsageStream } from "../../../domain/billing/usage.ts";
import { streamKey } from "../../../domain/billing/usage.ts";
import { createShardScans } from "../../createShardScans.ts";
import type { ScanShard } from "../../createShardScans.ts";

/** Scans for streams with usage that is ready; `second` is the last one that may be sealed. */
export type ScanStreams = ScanShard<UsageStream>;

/** Creates the scans of a worker's shards for usage that is ready. */
export const createStreamScans = (db: CommonQueryMethods): ScanStreams =>
  createShardScans({
    list: ({ after, second, limit }) => listReadyStreams(db, { after, lastSecond: second, limit }),
    keyOf: streamKey,
    idOf: ({ accountId }) => accountId,
  });
