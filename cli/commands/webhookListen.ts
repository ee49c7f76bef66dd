import { createHmac } from "node:crypto";
import { z } from "zod";
import {
  createImpactClient,
  ImpactApiError,
  ImpactConnectionError,
} from "../../clients/typescript/src/index.ts";
import type { StandaloneSchemas } from "../../clients/typescript/src/index.ts";
import { parseEventId } from "../../modules/events/events.rules.ts";
import { formatSecret, WEBHOOK_TYPES_OF } from "../../modules/events/webhooks.rules.ts";
import { mayReceiveKeys } from "../../runtime/loopback.rules.ts";
import { signWebhook } from "../../modules/events/signWebhook.ts";
import { namesFrom, parseCount, parsePath, parserOf } from "../arguments.ts";
import { UnavailableError, invalidRequest } from "../../runtime/errors.rules.ts";
import type { Define } from "../command.ts";
import { CommandError, EXIT, describeError } from "../exitCodes.ts";
import { readSecret } from "../input/readSecret.ts";

const TYPES = WEBHOOK_TYPES_OF.organization;
const POLL_INTERVAL_MS = 1000;
const TIMEOUT_MS = 15_000;

/** Returns the secret that requests are signed with: it stays the same for a key, and does not reveal it. */
const secretFor = (apiKey: string): string =>
  formatSecret(createHmac("sha256", apiKey).update("webhook listen").digest());

/** Returns the error of a call of the API, with the exit code `unreachable` if the API cannot respond now. */
const commandErrorOf = (error: unknown, address: string): unknown => {
  if (error instanceof ImpactConnectionError) {
    return new UnavailableError(
      `No response from ${address}/events. Check that the API is running.`,
    );
  }
  if (error instanceof ImpactApiError) {
    const message = `${address}/events: ${error.message}`;
    const isTemporary = error.status === 429 || error.status >= 500;
    return isTemporary ? new UnavailableError(message) : new CommandError(EXIT.failed, message);
  }
  return error;
};

/** Sends an event once. Returns the status, or why there is none. */
const forward = async (
  { id, type, timestamp, data }: StandaloneSchemas["Event"],
  forwardTo: string,
  secret: string,
  now: Date,
): Promise<string> => {
  const position = parseEventId(id);
  if (position === null) {
    throw new TypeError(`The feed has an event with the id ${id}.`);
  }
  const message = { ...position, type, occurredAt: new Date(timestamp), data };
  try {
    const { status } = await fetch(forwardTo, {
      method: "POST",
      ...signWebhook(message, [secret], now),
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    return String(status);
  } catch (error) {
    return describeError(error);
  }
};

const LISTEN_HELP = `
Requests are signed as those of webhook endpoints are, always with the same secret for the
same key, and are not repeated if they fail. Events are read from the API as a client does,
with the API key on standard input or in --key-file. If the API stops responding, the
command waits for it without a message, and goes on with the next event.
  printf '%s\\n' "$KEY" | impact webhook listen --forward-to http://localhost:3000/impact-events`;

const httpUrl = z.url({ protocol: /^https?$/u });

/** The URL of an interface that keys are sent to, without slashes at its end, because paths are appended. */
const parseApiUrl = parserOf(
  httpUrl.refine(mayReceiveKeys).transform((given) => given.replace(/\/+$/u, "")),
  "an https:// URL, unless its host is localhost or a loopback address",
);

export const addListenCommand: Define = (webhook, cli) => {
  webhook
    .command("listen")
    .description("Send new events to a server on a developer's machine, until interrupted")
    .requiredOption(
      "--forward-to <url>",
      "where events are sent",
      parserOf(httpUrl, "an http:// or https:// URL"),
    )
    .option(
      "--key-file <file>",
      "file with an API key of the organization, readable by its owner only (default: standard input)",
      parsePath,
    )
    .option(
      "--url <url>",
      "base URL of the standalone interface (default: PUBLIC_BASE_URL or the running `npm start`)",
      parseApiUrl,
    )
    .option("--types <list>", "only these types, with commas between them", namesFrom(TYPES))
    .option("--limit <n>", "number of events after which it ends", parseCount)
    .addHelpText("after", LISTEN_HELP)
    .action(async (options) => {
      const { forwardTo, types = TYPES } = options;
      const apiKey = await readSecret(cli, options.keyFile);
      if (apiKey === "") {
        throw invalidRequest("Give the API key on standard input or in a file with --key-file.");
      }
      const baseUrl = options.url ?? (await cli.connections.publicBaseUrl());
      if (!mayReceiveKeys(baseUrl)) {
        throw invalidRequest(
          `The key would be sent to ${baseUrl} in plain text. Pass --url with an https:// URL.`,
        );
      }
      const api = createImpactClient({ baseUrl, apiKey, timeoutMs: TIMEOUT_MS });
      const secret = secretFor(apiKey);
      const query = { types: types.join(",") };
      let last: string | undefined;
      try {
        for await (const { id } of api.listEvents(query, { maxRetries: 0 })) {
          last = id;
        }
        cli.say(`Ready. Requests are signed with the secret ${secret} and sent to ${forwardTo}.`);
        let forwarded = 0;
        const after = last === undefined ? query : { ...query, starting_after: last };
        const untilInterrupted = { pollIntervalMs: POLL_INTERVAL_MS, maxRetries: Infinity };
        for await (const event of api.followEvents(after, untilInterrupted)) {
          const outcome = await forward(event, forwardTo, secret, cli.clock.now());
          cli.printText(`${event.timestamp} ${event.type} ${event.id}: ${outcome}`);
          forwarded += 1;
          if (forwarded === options.limit) {
            return;
          }
        }
      } catch (error) {
        throw commandErrorOf(error, baseUrl);
      }
    });
};
