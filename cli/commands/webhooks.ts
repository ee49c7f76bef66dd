import { Option } from "commander";
import type { Command } from "commander";
import { listOwnedEndpoints } from "../../modules/events/endpoints.sql.ts";
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
  deleteWebhookEndpoint,
  getWebhookEndpoint,
  pingWebhookEndpoint,
  rotateWebhookSecret,
  updateWebhookEndpoint,
} from "../../modules/events/manageWebhookEndpoints.ts";
import { presentEndpoint } from "../../modules/events/presentWebhooks.ts";
import type { OperatorContext } from "../../modules/accounts/context.ts";
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
import type { JsonOption } from "../output/print.ts";
import { ENDPOINT, addDeliveryCommands } from "./webhookDeliveries.ts";
import { addListenCommand } from "./webhookListen.ts";

/** Returns an endpoint's status, and why and since when its server fails. */
const healthOf = (endpoint: WebhookEndpoint): string => {
  const { disabledAt, disabledReason, failingSince, lastError } = endpoint;
  const status = disabledAt === null ? "" : `disabled (${disabledReason})`;
  const failure =
    failingSince === null ? "" : `failing: ${lastError} since ${formatTime(failingSince)}`;
  return [status, failure].filter((part) => part !== "").join(", ") || "enabled";
};

/** The JSON form of an endpoint. */
const jsonOf = (endpoint: WebhookEndpoint) => ({
  ...presentEndpoint(endpoint),
  account_id: endpoint.accountId,
  mode: endpoint.mode,
});

const recordOf = (endpoint: WebhookEndpoint): Readonly<Record<string, Cell>> => ({
  id: endpoint.id,
  account: endpoint.accountId,
  mode: endpoint.mode,
  url: endpoint.url,
  types: endpoint.types?.join(", ") ?? "all",
  description: endpoint.description,
  status: healthOf(endpoint),
  "disabled since": endpoint.disabledAt,
  created: endpoint.createdAt,
});

/** @param more what is shown of it besides */
const printEndpoint = (
  { io }: CliContext,
  endpoint: WebhookEndpoint,
  { json }: JsonOption,
  more: Readonly<Record<string, Cell>> = {},
): void => {
  if (json) {
    printJson(io, { ...jsonOf(endpoint), ...more });
  } else {
    printRecord(io, { ...recordOf(endpoint), ...more });
  }
};

/** Defines a command that changes an endpoint, as soon as its options are checked. */
const addChange = <Options extends ChangeOptions>(
  context: CliContext,
  command: Command,
  change: (deps: OperatorContext, endpoint: WebhookEndpoint, options: Options) => Promise<void>,
  check: (options: Options) => void = () => undefined,
): void => {
  withAudit(command.argument(...ENDPOINT)).action(async (id: string, options: Options) => {
    check(options);
    const deps = await openChange(context, options);
    await change(deps, await getWebhookEndpoint(deps.db, id), options);
  });
};

const SAVE_SECRET = "Save this secret now; it cannot be shown again.";

type CreateOptions = ChangeOptions &
  AccountOptions & {
    readonly mode: Mode;
    readonly url: string;
    readonly types?: readonly string[];
    readonly description: string;
  };

/** Types of events that webhooks send. */
const parseWebhookTypes = namesFrom(WEBHOOK_TYPES);

const TYPES_OPTION = ["--types <list>", "only these types, with commas between them"] as const;

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
      .option(...TYPES_OPTION, parseWebhookTypes)
      .option("--description <text>", "note", ""),
  ).action(async (options: CreateOptions) => {
    const { mode, url, types = null, description } = options;
    const { account } = await openAccount(context, options);
    requireTypesOf(account.type, types);
    const deps = await openChange(context, options);
    const { endpoint } = await createWebhookEndpoint(
      { ...deps, webhookSettings: readWebhookSettings(context.connections.config()) },
      { accountId: account.id, mode },
      { url, types: types && [...types], description },
    );
    printEndpoint(context, endpoint, options, { secret: endpoint.secret });
    say(context.io, SAVE_SECRET);
  });
};

type ListOptions = JsonOption & AccountOptions & { readonly mode?: Mode; readonly limit: number };

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
        (endpoint) => ({ ...jsonOf(endpoint), owner: endpoint.owner }),
        {
          "endpoint id": (endpoint) => endpoint.id,
          account: (endpoint) => endpoint.owner,
          mode: (endpoint) => endpoint.mode,
          url: (endpoint) => endpoint.url,
          types: (endpoint) => endpoint.types?.join(", ") ?? "all",
          status: (endpoint) => healthOf(endpoint),
          created: (endpoint) => endpoint.createdAt,
        },
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
    .action(async (id: string, options: JsonOption) => {
      const db = await context.connections.database();
      printEndpoint(context, await getWebhookEndpoint(db, id), options);
    });
};

type UpdateOptions = ChangeOptions & {
  readonly url?: string;
  readonly types?: readonly string[];
  readonly allTypes?: true;
  readonly description?: string;
  readonly enable?: true;
  readonly disable?: true;
};

const addUpdateCommand = (parent: Command, context: CliContext): void => {
  const command = parent
    .command("update")
    .description("Update a webhook endpoint, or enable or disable it")
    .option("--url <url>", "where events are sent")
    .addOption(new Option(...TYPES_OPTION).argParser(parseWebhookTypes).conflicts("allTypes"))
    .option("--all-types", "all types, including those of later releases")
    .option("--description <text>", "note")
    .addOption(new Option("--enable", "send pending and new events").conflicts("disable"))
    .option("--disable", "record no events, and let pending ones wait");
  const change = async (
    deps: OperatorContext,
    current: WebhookEndpoint,
    options: UpdateOptions,
  ): Promise<void> => {
    const { url, types, allTypes, description, enable, disable } = options;
    requireTypesOf((await getAccount(deps.db, current.accountId)).type, types ?? null);
    const endpoint = await updateWebhookEndpoint(
      { ...deps, webhookSettings: readWebhookSettings(context.connections.config()) },
      current,
      {
        url,
        types: allTypes ? null : types && [...types],
        description,
        ...(enable && { status: "enabled" }),
        ...(disable && { status: "disabled" }),
      },
    );
    printEndpoint(context, endpoint, options);
  };
  addChange<UpdateOptions>(
    context,
    command,
    change,
    ({ url, types, allTypes, description, enable, disable }) => {
      const given = [url, types, allTypes, description, enable, disable];
      if (given.every((each) => each === undefined)) {
        throw new CommandError(EXIT.usage, "Nothing to change. Pass at least one option.");
      }
    },
  );
};

const addDeleteCommand = (parent: Command, context: CliContext): void => {
  const command = parent.command("delete").description("Delete an endpoint and its deliveries");
  addChange(context, command, async (deps, endpoint, { json }) => {
    await deleteWebhookEndpoint(deps, endpoint);
    if (json) {
      printJson(context.io, { id: endpoint.id, deleted: true });
    }
    say(context.io, `Deleted the endpoint ${endpoint.url}.`);
  });
};

type RotateOptions = ChangeOptions & { readonly revokePrevious?: true };

const addRotateCommand = (parent: Command, context: CliContext): void => {
  const command = parent
    .command("rotate")
    .description("Replace an endpoint's secret and print the new one, once")
    .option(
      "--revoke-previous",
      "revoke the previous secret immediately, for example after a leak",
    );
  addChange<RotateOptions>(context, command, async (deps, endpoint, options) => {
    const { io } = context;
    const { id } = endpoint;
    const { secret, previousValidUntil } = await rotateWebhookSecret(deps, endpoint, {
      revokesPrevious: options.revokePrevious ?? false,
    });
    if (options.json) {
      printJson(io, { id, secret, previous_valid_until: previousValidUntil });
    } else {
      printRecord(io, { id, secret, "previous valid until": previousValidUntil });
    }
    const previous = previousValidUntil
      ? `The previous one also signs for ${OLD_SECRET_HOURS} hours.`
      : "The previous one no longer signs.";
    say(io, `${SAVE_SECRET} ${previous}`);
  });
};

const addPingCommand = (parent: Command, context: CliContext): void => {
  const command = parent.command("ping").description("Send an endpoint a test event");
  addChange(context, command, async (deps, endpoint, { json }) => {
    const delivery = await pingWebhookEndpoint(deps, endpoint);
    if (json) {
      printJson(context.io, { id: delivery });
    }
    say(
      context.io,
      `The ping ${delivery} is sent within seconds. See: impact webhook deliveries ${endpoint.id}`,
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
  addPingCommand(webhook, context);
  addDeliveryCommands(webhook, context);
  addListenCommand(webhook, context);
};
