import type { Mode } from "../../../domain/accounts/accounts.ts";
import type { EventType } from "../../../domain/events/events.ts";
import { EVENT_TYPES } from "../../../domain/events/events.ts";
import { presentEvent } from "../../../domain/events/presentEvent.ts";
import { getOrganization } from "../../../services/accounts/getOrganization.ts";
import type { Feed } from "../../../services/events/readFeed.ts";
import { readFeed } from "../../../services/events/readFeed.ts";
import type { CliContext } from "../../context.ts";
import { say } from "../../io.ts";
import { printList } from "../../output/print.ts";

export type ListOptions = {
  readonly org: string;
  readonly mode: Mode;
  readonly types?: readonly EventType[];
  readonly startingAfter?: string;
  readonly limit: number;
  readonly json?: true;
};

const PAGE_EVENTS = 1000;

export const listEvents = async (
  { io, connections, clock }: CliContext,
  { org, mode, types = EVENT_TYPES, startingAfter, limit, json }: ListOptions,
): Promise<void> => {
  const db = await connections.database();
  await getOrganization(db, org);
  const found: ReturnType<typeof presentEvent>[] = [];
  let hasMore = true;
  let heldBackSince: Date | null = null;
  while (hasMore && found.length < limit) {
    const page: Feed = await readFeed(
      { db, clock },
      { accountId: org, mode },
      {
        types,
        startingAfter: found.at(-1)?.id ?? startingAfter ?? null,
        limit: Math.min(PAGE_EVENTS, limit - found.length),
      },
    );
    found.push(...page.events.map(presentEvent));
    ({ hasMore, heldBackSince } = page);
  }
  printList({ io, json }, found, (event) => event, {
    id: (event) => event.id,
    time: (event) => event.timestamp,
    type: (event) => event.type,
    data: (event) => JSON.stringify(event.data),
  });
  if (hasMore) {
    say(io, "More events exist. Raise --limit, or continue with --starting-after.");
  }
  if (heldBackSince) {
    say(
      io,
      `Events since ${heldBackSince.toISOString()} are held back, because an older transaction is open.`,
    );
  }
};
