/**
 * How many senders share the streams of usage, by their account, and how many share the webhook endpoints. It bounds their
 * number whatever the number of accounts, and lets several workers share the work.
 */
export const SHARDS = 4;

/** How many perpetual workflows do each kind of work. What the dispatcher starts is not divided. */
export const SHARDS_OF = { usage: SHARDS, webhooks: SHARDS, dispatcher: 1 } as const;
export type ShardKind = keyof typeof SHARDS_OF;

/** Returns the shard of an id. */
export const shardOf = (id: string): number => Number.parseInt(id.slice(-2), 16) % SHARDS;

/** The shards, by number. */
export const SHARD_NUMBERS: readonly number[] = Array.from({ length: SHARDS }, (_, index) => index);
