import { Option } from "commander";
import type { Command } from "commander";
import { DELIVERY_STATES } from "../../../domain/webhooks/decideDelivery.ts";
import {
  parseEventId,
  parseId,
  parseLimit,
  parseMode,
  parseWebhookTypes,
} from "../../arguments.ts";
import type { CliContext } from "../../context.ts";
import { withAudit } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import type { JsonOption } from "../../output/print.ts";
import { sinceOption } from "../../timeRange.ts";
import { withAccount } from "../../accountOptions.ts";
import { addListenCommand } from "./listen.ts";
import {
  listEndpointDeliveries,
  recoverEvents,
  retryDelivery,
  showAttempts,
} from "./manageDeliveries.ts";
import type { ListDeliveriesOptions } from "./manageDeliveries.ts";
import {
  createEndpoint,
  deleteEndpoint,
  listEndpoints,
  pingEndpoint,
  rotateSecret,
  showEndpoint,
  switchEndpoint,
  updateEndpoint,
} from "./manageEndpoints.ts";
import type { CreateOptions, ListOptions, UpdateOptions } from "./manageEndpoints.ts";

const ENDPOINT = ["<endpoint-id>", "id of the endpoint, from `webhook list`", parseId] as const;
const EVENT = ["<event>", "id of the event, from `webhook deliveries`", parseEventId] as const;

const addEndpointCommands = (webhook: Command, context: CliContext): void => {
  withAudit(
    withAccount(
      webhook
        .command("create")
        .description(
          "Create a webhook endpoint of an organization or a store, and print its secret once",
        ),
    )
      .requiredOption("--mode <live|test>", "mode of the events", parseMode)
      .requiredOption("--url <url>", "where events are sent")
      .option("--types <list>", "only these types, with commas between them", parseWebhookTypes)
      .option("--description <text>", "note", ""),
  ).action((options: CreateOptions) => createEndpoint(context, options));
  withAccount(
    webhook
      .command("list")
      .description("List endpoints and how their servers respond, those that fail first"),
  )
    .option("--mode <live|test>", "only endpoints of this mode", parseMode)
    .option("--limit <n>", "maximum rows", parseLimit, 100)
    .action((options: ListOptions) => listEndpoints(context, options));
  webhook
    .command("show")
    .description("Show an endpoint and its last error")
    .argument(...ENDPOINT)
    .action((id: string, options: JsonOption) => showEndpoint(context, id, options));
  withAudit(
    webhook
      .command("update")
      .description("Update a webhook endpoint's URL, types or description")
      .argument(...ENDPOINT)
      .option("--url <url>", "where events are sent")
      .addOption(
        new Option("--types <list>", "only these types, with commas between them")
          .argParser(parseWebhookTypes)
          .conflicts("allTypes"),
      )
      .option("--all-types", "all types, including those of later releases")
      .option("--description <text>", "note"),
  ).action((id: string, options: UpdateOptions) => updateEndpoint(context, id, options));
  withAudit(
    webhook
      .command("delete")
      .description("Delete an endpoint and its deliveries")
      .argument(...ENDPOINT),
  ).action((id: string, options: ChangeOptions) => deleteEndpoint(context, id, options));
};

const addActions = (webhook: Command, context: CliContext): void => {
  withAudit(
    webhook
      .command("rotate")
      .description("Replace an endpoint's secret and print the new one, once")
      .argument(...ENDPOINT)
      .option(
        "--revoke-previous",
        "revoke the previous secrets immediately, for example after a leak",
      ),
  ).action((id: string, options: ChangeOptions & { readonly revokePrevious?: true }) =>
    rotateSecret(context, id, options),
  );
  withAudit(
    webhook
      .command("enable")
      .description("Enable an endpoint")
      .argument(...ENDPOINT),
  ).action((id: string, options: ChangeOptions) => switchEndpoint(context, id, "enabled", options));
  withAudit(
    webhook
      .command("disable")
      .description("Disable an endpoint and end its pending deliveries")
      .argument(...ENDPOINT),
  ).action((id: string, options: ChangeOptions) =>
    switchEndpoint(context, id, "disabled", options),
  );
  withAudit(
    webhook
      .command("ping")
      .description("Send an endpoint a test event")
      .argument(...ENDPOINT),
  ).action((id: string, options: ChangeOptions) => pingEndpoint(context, id, options));
};

const addDeliveryCommands = (webhook: Command, context: CliContext): void => {
  webhook
    .command("deliveries")
    .description("List an endpoint's deliveries, newest first")
    .argument(...ENDPOINT)
    .addOption(
      new Option(
        "--state <state>",
        "only deliveries in this state; failed: also pending ones whose last attempt failed",
      ).choices(DELIVERY_STATES),
    )
    .option("--starting-after <event>", "only deliveries before the one with this id", parseEventId)
    .option("--limit <n>", "maximum rows", parseLimit, 100)
    .action((id: string, options: ListDeliveriesOptions) =>
      listEndpointDeliveries(context, id, options),
    );
  webhook
    .command("attempts")
    .description("Show a delivery with its attempts and their responses")
    .argument(...ENDPOINT)
    .argument(...EVENT)
    .action((id: string, event: string, options: JsonOption) =>
      showAttempts(context, id, event, options),
    );
  withAudit(
    webhook
      .command("retry")
      .description("Retry a delivery, also one that has succeeded")
      .argument(...ENDPOINT)
      .argument(...EVENT),
  ).action((id: string, event: string, options: ChangeOptions) =>
    retryDelivery(context, id, event, options),
  );
  withAudit(
    webhook
      .command("recover")
      .description("Send the events of the last 14 days that an endpoint has not received now")
      .argument(...ENDPOINT)
      .addOption(sinceOption().makeOptionMandatory()),
  ).action((id: string, options: ChangeOptions & { readonly since: Date }) =>
    recoverEvents(context, id, options),
  );
};

export const addWebhookCommands = (webhook: Command, context: CliContext): void => {
  addEndpointCommands(webhook, context);
  addActions(webhook, context);
  addDeliveryCommands(webhook, context);
  addListenCommand(webhook, context);
};
