import type { Command } from "commander";
import { parseEventId, parseEventTypes, parseId, parseLimit, parseMode } from "../../arguments.ts";
import type { CliContext } from "../../context.ts";
import type { ListOptions } from "./listEvents.ts";
import { listEvents } from "./listEvents.ts";

export const addEventCommands = (event: Command, context: CliContext): void => {
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
    .action((options: ListOptions) => listEvents(context, options));
};
