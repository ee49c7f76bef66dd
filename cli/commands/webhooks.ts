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
import { presentDelivery, presentEndpoint } from "../../modules/events/presentWebhooks.ts";
import { recoverWebhookEvents } from "../../modules/events/recoverWebhookEvents.ts";
import { listDeliveries } from "../../modules/events/deliveries.sql.ts";
import { DELIVERY_STATES } from "../../modules/events/decideDelivery.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { addChange } from "../command.ts";
import type { ChangeOptions, Cli, Define } from "../command.ts";
import { only } from "../output/print.ts";
import { SINCE } from "../timeRange.ts";
import { ACCOUNT_OPTION, readAccountFilter } from "../accountOptions.ts";
import { namesFrom, parseEventId, parseId, parseLimit, parseMode } from "../arguments.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { addListenCommand } from "./webhookListen.ts";

const jsonOf = (endpoint: WebhookEndpoint) => ({
  ...presentEndpoint(endpoint),
  account_id: endpoint.accountId,
  mode: endpoint.mode,
  owner: endpoint.owner,
});

const COLUMNS = "id owner mode url types status disabled_reason failing_since last_error".split(
  " ",
);

const SAVE_SECRET = "Save this secret now; it cannot be shown again.";

const TYPES_OPTION = ["--types <list>", "only these types, with commas between them"] as const;
const parseTypes = namesFrom(WEBHOOK_TYPES);

const ENDPOINT = ["<endpoint-id>", "id of the endpoint, from `webhook list`", parseId] as const;

const openWebhooks = async (cli: Cli, options: ChangeOptions) => ({
  ...(await cli.openChange(options)),
  webhookSettings: readWebhookSettings(cli.connections.config()),
});

const addEndpointChange = (webhook: Command, name: string, description: string) =>
  addChange(webhook, name, description).argument(...ENDPOINT);

const openEndpoint = async (cli: Cli, id: string, options: ChangeOptions) => {
  const deps = await openWebhooks(cli, options);
  return { deps, endpoint: await getWebhookEndpoint(deps.db, id) };
};

const addCreateCommand: Define = (webhook, cli) => {
  addChange(
    webhook,
    "create",
    "Create a webhook endpoint of an organization or a store, and print its secret once",
  )
    .requiredOption(...ACCOUNT_OPTION)
    .requiredOption("--mode <live|test>", "mode of the events", parseMode)
    .requiredOption("--url <url>", "where events are sent")
    .option(...TYPES_OPTION, parseTypes)
    .option("--description <text>", "note", "")
    .action(async (options) => {
      const { mode, url, types = null, description } = options;
      const { account } = await cli.openAccount(options);
      const { endpoint } = await createWebhookEndpoint(
        await openWebhooks(cli, options),
        { accountId: account.id, mode },
        { url, types, description },
      );
      cli.printDetails({ ...jsonOf(endpoint), secret: endpoint.secret });
      cli.say(SAVE_SECRET);
    });
};

const addListCommand: Define = (webhook, cli) => {
  webhook
    .command("list")
    .alias("show")
    .description("List endpoints and how their servers respond, those that fail first, or show one")
    .argument("[endpoint-id]", "id of the endpoint", parseId)
    .option(...ACCOUNT_OPTION)
    .option("--mode <live|test>", "only endpoints of this mode", parseMode)
    .option("--limit <n>", "maximum rows", parseLimit, 100)
    .action(async (id, { org, mode, limit }) => {
      const db = await cli.connections.database();
      if (id !== undefined) {
        cli.printDetails(jsonOf(await getWebhookEndpoint(db, id)));
        return;
      }
      const accountId = (await readAccountFilter(db, org)) ?? undefined;
      const rows = (await listEndpoints(db, { accountId, mode }, limit + 1)).map(jsonOf);
      cli.printList(rows, only(rows, COLUMNS), limit);
    });
};

const addChangeCommands: Define = (webhook, cli) => {
  addEndpointChange(webhook, "update", "Update a webhook endpoint, or enable or disable it")
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
        throw invalidRequest("Nothing to change. Pass at least one option.");
      }
      const { deps, endpoint } = await openEndpoint(cli, id, options);
      cli.printDetails(jsonOf(await updateWebhookEndpoint(deps, endpoint, changes)));
    });
  addEndpointChange(webhook, "delete", "Delete an endpoint and its deliveries").action(
    async (id, options) => {
      const { deps, endpoint } = await openEndpoint(cli, id, options);
      await deleteWebhookEndpoint(deps, endpoint);
      cli.printResult({ id, deleted: true });
      cli.say(`Deleted the endpoint ${endpoint.url}.`);
    },
  );
  addEndpointChange(
    webhook,
    "rotate",
    "Replace an endpoint's secret and print the new one, once",
  ).action(async (id, options) => {
    const { deps, endpoint } = await openEndpoint(cli, id, options);
    const { secret, previousValidUntil } = await rotateWebhookSecret(deps, endpoint);
    cli.printDetails({ id, secret, previous_valid_until: previousValidUntil });
    cli.say(
      `${SAVE_SECRET} The previous one also signs for ${OLD_SECRET_HOURS} hours; if it has leaked, rotate again.`,
    );
  });
};

const addDeliveryCommands: Define = (webhook, cli) => {
  addEndpointChange(webhook, "ping", "Send an endpoint a test event").action(
    async (id, options) => {
      const { deps, endpoint } = await openEndpoint(cli, id, options);
      const eventId = await pingWebhookEndpoint(deps, endpoint);
      cli.printResult({ id: eventId });
      cli.say(`The ping ${eventId} is sent within seconds. See: impact webhook deliveries ${id}`);
    },
  );

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
      const db = await cli.connections.database();
      const endpoint = await getWebhookEndpoint(db, id);
      const found = await listDeliveries(db, endpoint.id, { state, limit: limit + 1 });
      const rows = found.map(presentDelivery);
      const shown = rows.map(({ last_attempt: last, timestamp: _timestamp, ...row }) =>
        Object.assign(row, { last_result: last && (last.error ?? last.status) }),
      );
      cli.printList(rows, shown, limit);
    });

  addEndpointChange(
    webhook,
    "recover",
    "Send the events of the last 14 days that an endpoint has not received, or one event again",
  )
    .argument("[event]", "id of one event, from `webhook deliveries`", parseEventId)
    .option(...SINCE)
    .action(async (id, eventId, { since, ...options }) => {
      if ((eventId === undefined) === (since === undefined)) {
        throw invalidRequest("Pass either the id of an event or --since.");
      }
      const { deps, endpoint } = await openEndpoint(cli, id, options);
      let total = 0;
      for (let hasMore = true; hasMore;) {
        const part = await recoverWebhookEvents(deps, endpoint, { eventId, since });
        total += part.recovered;
        ({ hasMore } = part);
      }
      cli.printResult({ recovered_count: total });
      cli.say(
        total === 0
          ? "The endpoint has missed nothing."
          : `${counted(total, "event is", "events are")} sent now.`,
      );
    });
};

export const addWebhookCommands: Define = (webhook, cli) => {
  addCreateCommand(webhook, cli);
  addListCommand(webhook, cli);
  addChangeCommands(webhook, cli);
  addDeliveryCommands(webhook, cli);
  addListenCommand(webhook, cli);
};
