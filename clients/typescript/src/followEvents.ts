import type { CallOptions } from "./createTransport.ts";
import { checkDuration } from "./parseOptions.ts";
import { wait } from "./startDeadline.ts";

export type FollowOptions = CallOptions & {
  /** How long to wait when there are no more events; 5 seconds by default. */
  readonly pollIntervalMs?: number;
};

type FeedQuery = { readonly starting_after?: string };

const DEFAULT_POLL_INTERVAL_MS = 5_000;

/**
 * Yields the events of a feed, and polls for those that follow. Calls that keep failing after their retries end it: go on after
 * the last event that was processed.
 */
export async function* followEvents<Query extends FeedQuery, Event extends { readonly id: string }>(
  listEvents: (query: Query | undefined, options: CallOptions) => AsyncIterable<Event>,
  query: Query | undefined,
  { pollIntervalMs = DEFAULT_POLL_INTERVAL_MS, ...options }: FollowOptions = {},
): AsyncGenerator<Event, void, void> {
  checkDuration("pollIntervalMs", pollIntervalMs);
  let next = query;
  for (;;) {
    for await (const event of listEvents(next, options)) {
      yield event;
      next = { ...query, starting_after: event.id } as Query;
    }
    await wait(pollIntervalMs, options.signal);
  }
}
