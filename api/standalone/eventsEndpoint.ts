import { z } from "zod";
import {
  EVENT_DATA,
  EVENT_DAYS,
  EVENT_TYPES,
  presentEvent,
} from "../../modules/events/events.rules.ts";
import type { EventType } from "../../modules/events/events.rules.ts";
import { readFeed } from "../../modules/feed/readFeed.ts";
import { keyEndpoint } from "../http/endpoint.ts";
import { defaultedLimit, setNextLink } from "../http/listPages.ts";
import { responseObject, optional } from "../http/parseRequest.ts";
import { EVENT_MEANINGS, schemaNameOf } from "../endpoints/webhookSchemas.ts";
import type { AppContext } from "../context.ts";

const TYPES_MUST_BE = `must be one or more of ${EVENT_TYPES.join(", ")}, with commas between them`;

const NAMES = EVENT_TYPES.join("|").replaceAll(".", String.raw`\.`);

const isEventType = (given: string): given is EventType =>
  EVENT_TYPES.some((type) => type === given);

const query = z.object({
  types: optional(
    z
      .string()
      .meta({
        pattern: `^(?:${NAMES})(?:,(?:${NAMES}))*$`,
        examples: ["registration.created,registration.refunded"],
      })
      .transform((given, context): readonly EventType[] => {
        const names = given.split(",");
        const types = names.filter(isEventType);
        if (types.length < names.length) {
          context.addIssue({ code: "custom", message: TYPES_MUST_BE });
        }
        return [...new Set(types)];
      }),
    `Only events of these types, with commas between them: ${EVENT_TYPES.join(", ")}.`,
  ),
  limit: defaultedLimit("events"),
  starting_after: optional(
    z.string().meta({
      pattern: "^evt_[0-9a-f]{48}$",
      examples: ["evt_00000000000003e80198c5de7c1f7b52a3a13f1f9a0c9e11"],
    }),
    "The id of the last event that you have processed. The response has those that follow it. If it is omitted, the " +
      "response begins with the oldest event that is kept.",
  ),
});

const eventOf = <Type extends EventType>(type: Type) => {
  const title = schemaNameOf(type);
  return z
    .strictObject({
      id: z.string(),
      timestamp: z.iso.datetime(),
      type: z.literal(type),
      data: EVENT_DATA[type].meta({ id: `${title}Data` }),
    })
    .meta({ id: `${title}Event`, description: EVENT_MEANINGS[type] });
};

const [firstType, ...otherTypes] = EVENT_TYPES;

const event = z
  .discriminatedUnion("type", [eventOf(firstType), ...otherTypes.map(eventOf)])
  .meta({ id: "Event" });

const response = responseObject("Events", {
  events: z.array(event),
  has_more: z.boolean().describe("Whether more events can be read immediately."),
  held_back_since: z.iso
    .datetime()
    .nullable()
    .meta({
      description:
        "The time of an event that is recorded and not in the feed yet, because an older transaction of the database is " +
        "still open. Usually null: transactions take milliseconds.",
      examples: [null],
    }),
});

export const eventsEndpoint = (context: AppContext) =>
  keyEndpoint("get", "/events", {
    operationId: "listEvents",
    tag: "events",
    summary: "List events, oldest first",
    details:
      "Returns the events of the organization in the key's mode, oldest first. To follow them, repeat the request with " +
      "the id of the last event in `starting_after`: no event is left out or returned twice, however many are recorded " +
      `meanwhile. Events are kept for ${EVENT_DAYS} days. Imported records produce no events.`,
    responseHeaders: {
      Link: 'The URL of the events that follow, as `<…>; rel="next"`. Absent if there are none yet.',
    },
    errors: [
      [
        "event_gone",
        "The event in `starting_after` is unknown: it was deleted, because it is older than 30 days, or the database " +
          "was restored to a time before it. Or events that follow it are older than 30 days. Events may be missing, so " +
          "compare your copy with the lists of records, and then begin without `starting_after`.",
      ],
      "query_timeout",
    ],
    schemas: { query, response },
    handle: async ({ ctx, owner, query: { types = EVENT_TYPES, limit, starting_after } }) => {
      const position = { types, startingAfter: starting_after ?? null, limit };
      const { events, hasMore, heldBackSince } = await readFeed(context, owner, position);
      const presented = events.map(presentEvent);
      const last = presented.at(-1);
      if (hasMore && last) {
        setNextLink(ctx, context.publicBaseUrl(), { starting_after: last.id });
      }
      return {
        events: presented,
        has_more: hasMore,
        held_back_since: heldBackSince?.toISOString() ?? null,
      };
    },
  });
