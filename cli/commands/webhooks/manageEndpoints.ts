import type { Mode } from "../../../domain/accounts/accounts.ts";
import type { WebhookEndpoint } from "../../../db/webhooks/endpoints.ts";
import { findLastError, listOwnedEndpoints } from "../../../db/webhooks/endpointHealth.ts";
import { OLD_SECRET_HOURS, requireTypesOf } from "../../../domain/webhooks/webhookEndpoints.ts";
import { readWebhookSettings } from "../../../program/settings/readWebhookSettings.ts";
import { createWebhookEndpoint } from "../../../services/webhooks/createWebhookEndpoint.ts";
import { deleteWebhookEndpoint } from "../../../services/webhooks/deleteWebhookEndpoint.ts";
import { getWebhookEndpoint } from "../../../services/webhooks/getWebhookEndpoint.ts";
import { pingWebhookEndpoint } from "../../../services/webhooks/pingWebhookEndpoint.ts";
import { rotateWebhookSecret } from "../../../services/webhooks/rotateWebhookSecret.ts";
import { switchWebhookEndpoint } from "../../../services/webhooks/switchWebhookEndpoint.ts";
import { updateWebhookEndpoint } from "../../../services/webhooks/updateWebhookEndpoint.ts";
import { getAccount } from "../../../services/accounts/getAccount.ts";
import type { CliContext } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { say } from "../../io.ts";
import { openChange } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { printJson, printList, printRecord } from "../../output/print.ts";
import type { JsonOption } from "../../output/print.ts";
import { openAccount } from "../../accountOptions.ts";
import type { AccountOptions } from "../../accountOptions.ts";
import {
  ENDPOINT_COLUMNS,
  endpointRecord,
  presentEndpoint,
  presentLastError,
} from "./presentWebhook.ts";

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

export type CreateOptions = ChangeOptions &
  AccountOptions & {
    readonly mode: Mode;
    readonly url: string;
    readonly types?: readonly string[];
    readonly description: string;
  };

export const createEndpoint = async (
  context: CliContext,
  options: CreateOptions,
): Promise<void> => {
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
};

export type ListOptions = JsonOption &
  AccountOptions & { readonly mode?: Mode; readonly limit: number };

export const listEndpoints = async (
  context: CliContext,
  { mode, limit, json, ...named }: ListOptions,
): Promise<void> => {
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
};

export const showEndpoint = async (
  context: CliContext,
  id: string,
  { json }: JsonOption,
): Promise<void> => {
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
};

export type UpdateOptions = ChangeOptions & {
  readonly url?: string;
  readonly types?: readonly string[];
  readonly allTypes?: true;
  readonly description?: string;
};

export const updateEndpoint = async (
  context: CliContext,
  id: string,
  options: UpdateOptions,
): Promise<void> => {
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
};

export const deleteEndpoint = async (
  context: CliContext,
  id: string,
  options: ChangeOptions,
): Promise<void> => {
  const deps = await openChange(context, options);
  const endpoint = await getWebhookEndpoint(deps.db, id);
  await deleteWebhookEndpoint(deps, endpoint);
  if (options.json) {
    printJson(context.io, { id, deleted: true });
  }
  say(context.io, `Deleted the endpoint ${endpoint.url}.`);
};

export const switchEndpoint = async (
  context: CliContext,
  id: string,
  state: "enabled" | "disabled",
  options: ChangeOptions,
): Promise<void> => {
  const deps = await openChange(context, options);
  const endpoint = await getWebhookEndpoint(deps.db, id);
  printEndpoint(context, await switchWebhookEndpoint(deps, endpoint, state), options.json);
};

export const rotateSecret = async (
  context: CliContext,
  id: string,
  options: ChangeOptions & { readonly revokePrevious?: true },
): Promise<void> => {
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
};

export const pingEndpoint = async (
  context: CliContext,
  id: string,
  options: ChangeOptions,
): Promise<void> => {
  const deps = await openChange(context, options);
  const delivery = await pingWebhookEndpoint(deps, await getWebhookEndpoint(deps.db, id));
  if (options.json) {
    printJson(context.io, { id: delivery });
  }
  say(
    context.io,
    `The ping ${delivery} is sent within seconds. See: impact webhook deliveries ${id}`,
  );
};
