import { Option } from "commander";
import type { Command } from "commander";
import { findLastError, listOwnedEndpoints } from "../../modules/events/endpointHealth.sql.ts";
import type { LastError, OwnedEndpoint } from "../../modules/events/endpointHealth.sql.ts";
import type { WebhookEndpoint } from "../../modules/events/endpoints.sql.ts";
import type { Mode } from "../../modules/records/owner.rules.ts";
import {
  WEBHOOK_TYPES,
  OLD_SECRET_HOURS,
  requireTypesOf,
} from "../../modules/events/webhooks.rules.ts";
import { readWebhookSettings } from "../../modules/events/allowedAddresses.ts";
import { getAccount } from "../../modules/accounts/getAccount.ts";
import {
  createWebhookEndpoint,
  getWebhookEndpoint,
  updateWebhookEndpoint,
  deleteWebhookEndpoint,
  switchWebhookEndpoint,
  pingWebhookEndpoint,
  rotateWebhookSecret,
} from "../../modules/events/manageWebhookEndpoints.ts";
import { openAccount, withAccount } from "../accountOptions.ts";
import type { AccountOptions } from "../accountOptions.ts";
import { namesFrom, parseLimit, parseMode } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import { openChange, withAudit } from "../operator.ts";
import type { ChangeOptions } from "../operator.ts";
import { formatTime } from "../output/formatTable.ts";
import type { Cell } from "../output/formatTable.ts";
import { printJson, printList, printRecord } from "../output/print.ts";
import type { Columns, JsonOption } from "../output/print.ts";
import { ENDPOINT, addDeliveryCommands } from "./webhookDeliveries.ts";
import { addListenCommand } from "./webhookListen.ts";

const statusOf = ({ disabledAt, disabledReason, failingSince }: WebhookEndpoint): string => {
  if (disabledAt !== null) {
    return `disabled (${disabledReason})`;
  }
  return failingSince === null ? "enabled" : "failing";
};

const typesOf = ({ types }: WebhookEndpoint): string => types?.join(", ") ?? "all";

/** The JSON form of an endpoint. */
const presentEndpoint = (endpoint: WebhookEndpoint) => ({
  id: endpoint.id,
  account_id: endpoint.accountId,
  mode: endpoint.mode,
  url: endpoint.url,
  types: endpoint.types ?? ["*"],
  description: endpoint.description,
  created_at: endpoint.createdAt,
  failing_since: endpoint.failingSince,
  disabled_at: endpoint.disabledAt,
  disabled_reason: endpoint.disabledReason,
});

const endpointRecord = (endpoint: WebhookEndpoint): Readonly<Record<string, Cell>> => ({
  id: endpoint.id,
  account: endpoint.accountId,
  mode: endpoint.mode,
  url: endpoint.url,
  types: typesOf(endpoint),
  description: endpoint.description,
  status: statusOf(endpoint),
  "failing since": endpoint.failingSince,
  "disabled since": endpoint.disabledAt,
  created: endpoint.createdAt,
});

/** Returns an endpoint's status, and why and since when its server fails. */
const healthOf = (endpoint: OwnedEndpoint): string => {
  const { failingSince, lastError } = endpoint;
  return failingSince === null
    ? statusOf(endpoint)
    : `${statusOf(endpoint)}: ${lastError ?? "no success"} since ${formatTime(failingSince)}`;
};

/** The JSON form of how an endpoint's last failed delivery has ended. */
const presentLastError = ({ lastError, lastErrorAt }: LastError) => ({
  last_error: lastError,
  last_error_at: lastErrorAt,
});

const SAVE_SECRET = "Save this secret now; it cannot be shown again.";

const printEndpoint = (
  { io }: CliContext,
  endpoint: WebhookEndpoint,
  json: true | undefined,
): void => {
  if (json) {
    printJson(io, presentEndpoint(endpoint));
  } else {
    printRecord(io, endpointRecord(endpoint));
  }
};

type CreateOptions = ChangeOptions &
  AccountOptions & {
    readonly mode: Mode;
    readonly url: string;
    readonly types?: readonly string[];
    readonly description: string;
  };

/** Types of events that webhooks send. */
const parseWebhookTypes = namesFrom(WEBHOOK_TYPES);

const addCreateCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    withAccount(
      parent
        .command("create")
        .description(
          "Create a webhook endpoint of an organization or a store, and print its secret once",
        ),
    )
      .requiredOption("--mode <live|test>", "mode of the events", parseMode)
      .requiredOption("--url <url>", "where events are sent")
      .option("--types <list>", "only these types, with commas between them", parseWebhookTypes)
      .option("--description <text>", "note", ""),
  ).action(async (options: CreateOptions) => {
    const { io, connections } = context;
    const { mode, url, types = null, description, json } = options;
    const { account } = await openAccount(context, options);
    requireTypesOf(account.type, types);
    const deps = await openChange(context, options);
    const { endpoint, secret } = await createWebhookEndpoint(
      { ...deps, webhookSettings: readWebhookSettings(connections.config()) },
      { accountId: account.id, mode },
      { url, types: types && [...types], description },
    );
    if (json) {
      printJson(io, { ...presentEndpoint(endpoint), secret });
    } else {
      printRecord(io, { ...endpointRecord(endpoint), secret });
    }
    say(io, SAVE_SECRET);
  });
};

type ListOptions = JsonOption & AccountOptions & { readonly mode?: Mode; readonly limit: number };

const ENDPOINT_COLUMNS: Columns<OwnedEndpoint> = {
  "endpoint id": (endpoint) => endpoint.id,
  account: (endpoint) => endpoint.owner,
  mode: (endpoint) => endpoint.mode,
  url: (endpoint) => endpoint.url,
  types: (endpoint) => typesOf(endpoint),
  status: (endpoint) => healthOf(endpoint),
  created: (endpoint) => endpoint.createdAt,
};

const addListCommand = (parent: Command, context: CliContext): void => {
  withAccount(
    parent
      .command("list")
      .description("List endpoints and how their servers respond, those that fail first"),
  )
    .option("--mode <live|test>", "only endpoints of this mode", parseMode)
    .option("--limit <n>", "maximum rows", parseLimit, 100)
    .action(async ({ mode, limit, json, ...named }: ListOptions) => {
      const { io, connections } = context;
      const db = await connections.database();
      const isNamed = named.org !== undefined || named.store !== undefined;
      const accountId = isNamed ? (await openAccount(context, named)).account.id : null;
      const endpoints = await listOwnedEndpoints(db, {
        accountId,
        mode: mode ?? null,
        limit: limit + 1,
      });
      printList(
        { io, json },
        endpoints.slice(0, limit),
        (endpoint) => ({
          ...presentEndpoint(endpoint),
          owner: endpoint.owner,
          ...presentLastError(endpoint),
        }),
        ENDPOINT_COLUMNS,
      );
      if (endpoints.length > limit) {
        say(io, "More endpoints exist. Raise --limit.");
      }
    });
};

const addShowCommand = (parent: Command, context: CliContext): void => {
  parent
    .command("show")
    .description("Show an endpoint and its last error")
    .argument(...ENDPOINT)
    .action(async (id: string, { json }: JsonOption) => {
      const { io, connections } = context;
      const db = await connections.database();
      const endpoint = await getWebhookEndpoint(db, id);
      const last = await findLastError(db, id);
      if (json) {
        printJson(io, { ...presentEndpoint(endpoint), ...presentLastError(last) });
      } else {
        printRecord(io, {
          ...endpointRecord(endpoint),
          "last error": last.lastError,
          "last error at": last.lastErrorAt,
        });
      }
    });
};

type UpdateOptions = ChangeOptions & {
  readonly url?: string;
  readonly types?: readonly string[];
  readonly allTypes?: true;
  readonly description?: string;
};

const addUpdateCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
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
  ).action(async (id: string, options: UpdateOptions) => {
    const { url, types, allTypes, description, json } = options;
    if ([url, types, allTypes, description].every((given) => given === undefined)) {
      throw new CommandError(EXIT.usage, "Nothing to change. Pass at least one option.");
    }
    const deps = await openChange(context, options);
    const current = await getWebhookEndpoint(deps.db, id);
    requireTypesOf((await getAccount(deps.db, current.accountId)).type, types ?? null);
    const endpoint = await updateWebhookEndpoint(
      { ...deps, webhookSettings: readWebhookSettings(context.connections.config()) },
      current,
      { url, types: allTypes ? null : types, description },
    );
    printEndpoint(context, endpoint, json);
  });
};

const addDeleteCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("delete")
      .description("Delete an endpoint and its deliveries")
      .argument(...ENDPOINT),
  ).action(async (id: string, options: ChangeOptions) => {
    const deps = await openChange(context, options);
    const endpoint = await getWebhookEndpoint(deps.db, id);
    await deleteWebhookEndpoint(deps, endpoint);
    if (options.json) {
      printJson(context.io, { id, deleted: true });
    }
    say(context.io, `Deleted the endpoint ${endpoint.url}.`);
  });
};

const switchEndpoint = async (
  context: CliContext,
  id: string,
  state: "enabled" | "disabled",
  options: ChangeOptions,
): Promise<void> => {
  const deps = await openChange(context, options);
  const endpoint = await getWebhookEndpoint(deps.db, id);
  printEndpoint(context, await switchWebhookEndpoint(deps, endpoint, state), options.json);
};

const addEnableCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("enable")
      .description("Enable an endpoint")
      .argument(...ENDPOINT),
  ).action((id: string, options: ChangeOptions) => switchEndpoint(context, id, "enabled", options));
};

const addDisableCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("disable")
      .description("Disable an endpoint and end its pending deliveries")
      .argument(...ENDPOINT),
  ).action((id: string, options: ChangeOptions) =>
    switchEndpoint(context, id, "disabled", options),
  );
};

const addRotateCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("rotate")
      .description("Replace an endpoint's secret and print the new one, once")
      .argument(...ENDPOINT)
      .option(
        "--revoke-previous",
        "revoke the previous secrets immediately, for example after a leak",
      ),
  ).action(async (id: string, options: ChangeOptions & { readonly revokePrevious?: true }) => {
    const { io } = context;
    const deps = await openChange(context, options);
    const { secret, previousValidUntil } = await rotateWebhookSecret(
      deps,
      await getWebhookEndpoint(deps.db, id),
      { revokesPrevious: options.revokePrevious ?? false },
    );
    if (options.json) {
      printJson(io, { id, secret, previous_valid_until: previousValidUntil });
    } else {
      printRecord(io, { id, secret, "previous valid until": previousValidUntil });
    }
    const previous = previousValidUntil
      ? `The previous one also signs for ${OLD_SECRET_HOURS} hours.`
      : "The previous ones no longer sign.";
    say(io, `${SAVE_SECRET} ${previous}`);
  });
};

const addPingCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("ping")
      .description("Send an endpoint a test event")
      .argument(...ENDPOINT),
  ).action(async (id: string, options: ChangeOptions) => {
    const deps = await openChange(context, options);
    const delivery = await pingWebhookEndpoint(deps, await getWebhookEndpoint(deps.db, id));
    if (options.json) {
      printJson(context.io, { id: delivery });
    }
    say(
      context.io,
      `The ping ${delivery} is sent within seconds. See: impact webhook deliveries ${id}`,
    );
  });
};

export const addWebhookCommands = (webhook: Command, context: CliContext): void => {
  addCreateCommand(webhook, context);
  addListCommand(webhook, context);
  addShowCommand(webhook, context);
  addUpdateCommand(webhook, context);
  addDeleteCommand(webhook, context);
  addRotateCommand(webhook, context);
  addEnableCommand(webhook, context);
  addDisableCommand(webhook, context);
  addPingCommand(webhook, context);
  addDeliveryCommands(webhook, context);
  addListenCommand(webhook, context);
};
