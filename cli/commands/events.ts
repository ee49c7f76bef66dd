import type { Command } from "commander";
import type { Mode } from "../../modules/records/owner.rules.ts";
import { EVENT_TYPES, presentEvent } from "../../modules/events/events.rules.ts";
import type { EventType } from "../../modules/events/events.rules.ts";
import { getOrganization } from "../../modules/accounts/getAccount.ts";
import { readFeed } from "../../modules/feed/readFeed.ts";
import type { Feed } from "../../modules/feed/readFeed.ts";
import { namesFrom, parseEventId, parseId, parseLimit, parseMode } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { say } from "../io.ts";
import { printList } from "../output/print.ts";
import type { JsonOption } from "../output/print.ts";

type ListOptions = JsonOption & {
  readonly org: string;
  readonly mode: Mode;
  readonly types?: readonly EventType[];
  readonly startingAfter?: string;
  readonly limit: number;
};

const PAGE_EVENTS = 1000;

const parseEventTypes = namesFrom(EVENT_TYPES);

export const addEventCommands = (event: Command, { io, connections, clock }: CliContext): void => {
  event
    .command("list")
    .description("List an organization's events as GET /events returns them, oldest first")
    .requiredOption("--org <id>", "id of the organization", parseId)
    .option("--mode <live|test>", "mode of the events", parseMode, "live")
    .option("--types <list>", "only these types, with commas between them", parseEventTypes)
    .option(
      "--starting-after <event>",
      "only events that follow the one with this id",
      parseEventId,
    )
    .option("--limit <n>", "maximum rows", parseLimit, 100)
    .action(async ({ org, mode, types = EVENT_TYPES, startingAfter, limit, json }: ListOptions) => {
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
      printList({ io, json }, found, (each) => each, {
        id: (each) => each.id,
        time: (each) => each.timestamp,
        type: (each) => each.type,
        data: (each) => JSON.stringify(each.data),
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
    });
};
