import type { DatabasePool } from "slonik";
import { listShardStatuses } from "../../../db/shards/shards.sql.ts";
import { secondOf } from "../../../runtime/durations.rules.ts";
import { SHARD_KINDS, SHARD_NUMBERS } from "../../../db/shards/shards.rules.ts";
import type { ShardKind } from "../../../db/shards/shards.rules.ts";
import { shardSenderId, startShardSender } from "../../senders.ts";
import { createWaker } from "../../createWaker.ts";
import type { Pass, DispatchContext } from "../../createWaker.ts";

/**
 * A shard's sender looks for work every second, or less often if that takes long, and pauses for three seconds after an error.
 * Starting one that is not silent does nothing.
 */
const SILENT_AFTER_SECONDS = 10;

/** Stands for the last pass of a shard that never had one. */
const NEVER = { ageSeconds: Infinity, lastPassAt: new Date(0) };

/** A shard whose sender has not looked for work for some seconds; `second` is when it last did. */
type SilentShard = {
  readonly kind: ShardKind;
  readonly shard: number;
  readonly second: number;
  readonly attempts: 0;
};

const listSilentShards = async (
  db: DatabasePool,
  kind: ShardKind,
): Promise<readonly SilentShard[]> => {
  const statuses = new Map(
    (await listShardStatuses(db, kind)).map((status) => [status.number, status]),
  );
  return SHARD_NUMBERS.flatMap((shard): readonly SilentShard[] => {
    const { ageSeconds, lastPassAt } = statuses.get(shard) ?? NEVER;
    // A pass in the future was recorded before the clock was set back.
    return Math.abs(ageSeconds) > SILENT_AFTER_SECONDS
      ? [{ kind, shard, second: secondOf(lastPassAt), attempts: 0 }]
      : [];
  });
};

/** Starts the senders of the shards. They run for ever, so this does nothing unless one was lost. */
export const createStartShardSenders = (context: DispatchContext): Pass => {
  const { db, temporal, deployment } = context;
  const wakeAll = createWaker<SilentShard>(context, {
    keyOf: ({ kind, shard }) => `${kind}/${shard}`,
    workflowIdOf: ({ kind, shard }) => shardSenderId(deployment, kind, shard),
    wake: ({ kind, shard }) => startShardSender(temporal, deployment, kind, shard),
  });
  return async ({ signal }) => {
    const silent = await Promise.all(SHARD_KINDS.map((kind) => listSilentShards(db, kind)));
    await wakeAll(silent.flat(), signal);
  };
};
