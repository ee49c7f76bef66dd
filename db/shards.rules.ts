/** What shards divide: usage streams by their account, and webhook endpoints. */
export const SHARD_KINDS = ["usage", "webhooks"] as const;
export type ShardKind = (typeof SHARD_KINDS)[number];

/**
 * How many senders share the work of a kind. It bounds their number whatever the number of accounts, and lets several
 * workers share the work.
 */
export const SHARDS = 4;

/** Returns the shard of an id. */
export const shardOf = (id: string): number => Number.parseInt(id.slice(-2), 16) % SHARDS;

/** The shards, by number. */
export const SHARD_NUMBERS: readonly number[] = Array.from({ length: SHARDS }, (_, index) => index);
