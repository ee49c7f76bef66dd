import { Option } from "@commander-js/extra-typings";
import type { Command } from "@commander-js/extra-typings";
import { listEndpoints } from "../../modules/events/endpoints.sql.ts";
import type { WebhookEndpoint } from "../../modules/events/endpoints.sql.ts";
import { WEBHOOK_TYPES, OLD_SECRET_HOURS } from "../../modules/events/webhooks.rules.ts";
import { readWebhookSettings } from "../../modules/events/allowedAddresses.ts";
import {
  createWebhookEndpoint,
  deleteWebhookEndpoint,
  getWebhookEndpoint,
  pingWebhookEndpoint,
  rotateWebhookSecret,
  updateWebhookEndpoint,
} from "../../modules/events/manageWebhookEndpoints.ts";
import type { WebhookContext } from "../../modules/events/manageWebhookEndpoints.ts";
import { presentDelivery, presentEndpoint } from "../../modules/events/presentWebhooks.ts";
import { recoverWebhookEvents } from "../../modules/events/recoverWebhookEvents.ts";
import { listDeliveries } from "../../modules/events/deliveries.sql.ts";
import { DELIVERY_STATES } from "../../modules/events/decideDelivery.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { sinceOption } from "../timeRange.ts";
import type { OperatorContext } from "../../modules/accounts/context.ts";
import {
  accountOption,
  openAccount,
  readAccountFilter,
  requiredAccount,
} from "../accountOptions.ts";
import { namesFrom, parseEventId, parseId, parseLimit, parseMode } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import { openChange, withAudit } from "../operator.ts";
import type { ChangeOptions } from "../operator.ts";
import { only, printDetails, printList, printResult, sayIfMore } from "../output/print.ts";
import type { Fields } from "../output/print.ts";
import { addListenCommand } from "./webhookListen.ts";

const jsonOf = (endpoint: WebhookEndpoint) => ({
  ...presentEndpoint(endpoint),
  account_id: endpoint.accountId,
  mode: endpoint.mode,
  owner: endpoint.owner,
});

const COLUMNS = [
  "id",
  "owner",
  "mode",
  "url",
  "types",
  "status",
  "disabled_reason",
  "failing_since",
  "last_error",
] as const;

/** @param more what is shown of it besides */
const printEndpoint = ({ io }: CliContext, endpoint: WebhookEndpoint, more: Fields = {}): void =>
  printDetails(io, { ...jsonOf(endpoint), ...more });

const SAVE_SECRET = "Save this secret now; it cannot be shown again.";

const TYPES_OPTION = ["--types <list>", "only these types, with commas between them"] as const;
const parseTypes = namesFrom(WEBHOOK_TYPES);

const ENDPOINT = ["<endpoint-id>", "id of the endpoint, from `webhook list`", parseId] as const;

const openWebhooks = async (
  context: CliContext,
  options: ChangeOptions,
): Promise<OperatorContext & WebhookContext> => ({
  ...(await openChange(context, options)),
  webhookSettings: readWebhookSettings(context.connections.config()),
});

/** Opens the database, and returns an endpoint with it. */
const openEndpoint = async (context: CliContext, id: string, options: ChangeOptions) => {
  const deps = await openWebhooks(context, options);
  return { deps, endpoint: await getWebhookEndpoint(deps.db, id) };
};

const addCreateCommand = (webhook: Command, context: CliContext): void => {
  withAudit(
    webhook
      .command("create")
      .description(
        "Create a webhook endpoint of an organization or a store, and print its secret once",
      )
      .addOption(requiredAccount())
      .requiredOption("--mode <live|test>", "mode of the events", parseMode)
      .requiredOption("--url <url>", "where events are sent")
      .option(...TYPES_OPTION, parseTypes)
      .option("--description <text>", "note", ""),
  ).action(async (options) => {
    const { mode, url, types = null, description } = options;
    const { account } = await openAccount(context, options);
    const { endpoint } = await createWebhookEndpoint(
      await openWebhooks(context, options),
      { accountId: account.id, mode },
      { url, types, description },
    );
    printEndpoint(context, endpoint, { secret: endpoint.secret });
    say(context.io, SAVE_SECRET);
  });
};

const addListCommand = (webhook: Command, context: CliContext): void => {
  const { io, connections } = context;
  webhook
    .command("list")
    .alias("show")
    .description("List endpoints and how their servers respond, those that fail first, or show one")
    .argument("[endpoint-id]", "id of the endpoint", parseId)
    .addOption(accountOption())
    .option("--mode <live|test>", "only endpoints of this mode", parseMode)
    .option("--limit <n>", "maximum rows", parseLimit, 100)
    .action(async (id, { org, mode, limit }) => {
      const db = await connections.database();
      if (id !== undefined) {
        printEndpoint(context, await getWebhookEndpoint(db, id));
        return;
      }
      const accountId = (await readAccountFilter(db, org)) ?? undefined;
      const endpoints = await listEndpoints(db, { accountId, mode }, limit + 1);
      const rows = endpoints.slice(0, limit).map(jsonOf);
      printList(io, rows, only(rows, COLUMNS));
      sayIfMore(io, endpoints.length, limit);
    });
};

/** Returns a new command that changes an endpoint. */
const changeCommand = (webhook: Command, name: string, description: string) =>
  withAudit(
    webhook
      .command(name)
      .description(description)
      .argument(...ENDPOINT),
  );

const addChangeCommands = (webhook: Command, context: CliContext): void => {
  const { io } = context;
  changeCommand(webhook, "update", "Update a webhook endpoint, or enable or disable it")
    .option("--url <url>", "where events are sent")
    .addOption(new Option(...TYPES_OPTION).argParser(parseTypes).conflicts("allTypes"))
    .option("--all-types", "all types, including those of later releases")
    .option("--description <text>", "note")
    .addOption(new Option("--enable", "send pending and new events").conflicts("disable"))
    .option("--disable", "record no events, and let pending ones wait")
    .action(async (id, { url, types, allTypes, description, enable, disable, ...options }) => {
      const status = enable ? ("enabled" as const) : disable && ("disabled" as const);
      const changes = { url, types: allTypes ? null : types, description, status };
      if (Object.values(changes).every((each) => each === undefined)) {
        throw new CommandError(EXIT.usage, "Nothing to change. Pass at least one option.");
      }
      const { deps, endpoint } = await openEndpoint(context, id, options);
      printEndpoint(context, await updateWebhookEndpoint(deps, endpoint, changes));
    });
  changeCommand(webhook, "delete", "Delete an endpoint and its deliveries").action(
    async (id, options) => {
      const { deps, endpoint } = await openEndpoint(context, id, options);
      await deleteWebhookEndpoint(deps, endpoint);
      printResult(io, { id, deleted: true });
      say(io, `Deleted the endpoint ${endpoint.url}.`);
    },
  );
  changeCommand(
    webhook,
    "rotate",
    "Replace an endpoint's secret and print the new one, once",
  ).action(async (id, options) => {
    const { deps, endpoint } = await openEndpoint(context, id, options);
    const { secret, previousValidUntil } = await rotateWebhookSecret(deps, endpoint);
    printDetails(io, { id, secret, previous_valid_until: previousValidUntil });
    say(
      io,
      `${SAVE_SECRET} The previous one also signs for ${OLD_SECRET_HOURS} hours; if it has leaked, rotate again.`,
    );
  });
};

const addDeliveryCommands = (webhook: Command, context: CliContext): void => {
  const { io, connections } = context;

  changeCommand(webhook, "ping", "Send an endpoint a test event").action(async (id, options) => {
    const { deps, endpoint } = await openEndpoint(context, id, options);
    const eventId = await pingWebhookEndpoint(deps, endpoint);
    printResult(io, { id: eventId });
    const command = `impact webhook deliveries ${id}`;
    say(io, `The ping ${eventId} is sent within seconds. See: ${command}`);
  });

  webhook
    .command("deliveries")
    .description("List an endpoint's deliveries with their last attempt, newest first")
    .argument(...ENDPOINT)
    .addOption(
      new Option(
        "--state <state>",
        "only deliveries in this state; failed: also pending ones whose last attempt failed",
      ).choices(DELIVERY_STATES),
    )
    .option("--limit <n>", "maximum rows", parseLimit, 100)
    .action(async (id, { state, limit }) => {
      const db = await connections.database();
      const endpoint = await getWebhookEndpoint(db, id);
      const found = await listDeliveries(db, endpoint.id, { state, limit: limit + 1 });
      const rows = found.slice(0, limit).map(presentDelivery);
      const shown = rows.map(({ last_attempt: last, timestamp: _timestamp, ...row }) =>
        Object.assign(row, { last_result: last && (last.error ?? last.status) }),
      );
      printList(io, rows, shown);
      sayIfMore(io, found.length, limit);
    });

  changeCommand(
    webhook,
    "recover",
    "Send the events of the last 14 days that an endpoint has not received, or one event again",
  )
    .argument("[event]", "id of one event, from `webhook deliveries`", parseEventId)
    .addOption(sinceOption())
    .action(async (id, eventId, { since, ...options }) => {
      if ((eventId === undefined) === (since === undefined)) {
        throw new CommandError(EXIT.usage, "Pass either the id of an event or --since.");
      }
      const { deps, endpoint } = await openEndpoint(context, id, options);
      let total = 0;
      let hasMore = true;
      while (hasMore) {
        const part = await recoverWebhookEvents(deps, endpoint, { eventId, since });
        total += part.recovered;
        ({ hasMore } = part);
      }
      printResult(io, { recovered_count: total });
      say(
        io,
        total === 0
          ? "The endpoint has missed nothing."
          : `${counted(total, "event is", "events are")} sent now.`,
      );
    });
};

export const addWebhookCommands = (webhook: Command, context: CliContext): void => {
  addCreateCommand(webhook, context);
  addListCommand(webhook, context);
  addChangeCommands(webhook, context);
  addDeliveryCommands(webhook, context);
  addListenCommand(webhook, context);
};
