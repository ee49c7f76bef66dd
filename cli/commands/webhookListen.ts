import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "@commander-js/extra-typings";
import { z } from "zod";
import { parseEventId } from "../../modules/events/events.rules.ts";
import { WEBHOOK_TYPES_OF } from "../../modules/events/webhooks.rules.ts";
import { mayReceiveKeys } from "../../runtime/loopback.rules.ts";
import { newSecret, signWebhook } from "../../modules/events/signWebhook.ts";
import { namesFrom, parseCount, parsePath, parserOf } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT, describeError, exitCodeOf } from "../exitCodes.ts";
import { readSecret } from "../input/readSecret.ts";
import { say } from "../io.ts";
import { printText } from "../output/print.ts";

const TYPES = WEBHOOK_TYPES_OF.organization;
const PAGE_EVENTS = "1000";
const POLL_INTERVAL_MS = 1000;
const TIMEOUT_MS = 15_000;

type ListenOptions = {
  readonly forwardTo: string;
  readonly keyFile?: string;
  readonly url?: string;
  readonly types?: readonly string[];
  readonly secretFile?: string;
  readonly limit?: number;
};

const pageSchema = z.object({
  events: z.array(
    z.object({
      id: z.string(),
      type: z.enum(TYPES),
      timestamp: z.iso.datetime(),
      data: z.record(z.string(), z.unknown()),
    }),
  ),
  has_more: z.boolean(),
});
type Page = z.output<typeof pageSchema>;

/** Parses JSON; what is not JSON fails the schema that follows. */
const asJson = z.string().transform((text): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
});

/** @throws CommandError with the exit code `unreachable` if the API cannot respond now */
const readPage = async (url: string, key: string, query: URLSearchParams): Promise<Page> => {
  const init = {
    headers: { Authorization: key },
    redirect: "error",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  } as const;
  const { status, body } = await fetch(`${url}?${query.toString()}`, init)
    .then(async (response) => ({ status: response.status, body: await response.text() }))
    .catch((error: unknown) => {
      throw new CommandError(
        EXIT.unreachable,
        `No response from ${url}: ${describeError(error)}. Check that the API is running.`,
        { cause: error },
      );
    });
  const found = asJson.pipe(pageSchema).safeParse(body);
  if (status !== 200 || !found.success) {
    const { data } = asJson.pipe(z.object({ error: z.string() })).safeParse(body);
    throw new CommandError(
      status === 429 || status >= 500 ? EXIT.unreachable : EXIT.failed,
      `${url}: ${data?.error ?? `the response ${status} is not the API's. Check --url.`}`,
    );
  }
  return found.data;
};

/** Returns a function that reads what follows an event, or from the beginning. */
const openFeed = async (
  { connections, io }: CliContext,
  { keyFile, url, types = TYPES }: ListenOptions,
): Promise<(startingAfter: string | null) => Promise<Page>> => {
  const key = await readSecret(io, keyFile);
  if (key === "") {
    throw new CommandError(
      EXIT.usage,
      "Give the API key on standard input or in a file with --key-file.",
    );
  }
  const address = url ?? (await connections.publicBaseUrl());
  if (!mayReceiveKeys(address)) {
    throw new CommandError(
      EXIT.usage,
      `The key would be sent to ${address} in plain text. Pass --url with an https:// URL.`,
    );
  }
  return (startingAfter) => {
    const query = new URLSearchParams({ types: types.join(","), limit: PAGE_EVENTS });
    if (startingAfter !== null) {
      query.set("starting_after", startingAfter);
    }
    return readPage(`${address}/events`, key, query);
  };
};

/** Sends an event once. Returns the status, or why there is none. */
const forward = async (
  { id, type, timestamp, data }: Page["events"][number],
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
Requests are signed as those of webhook endpoints are, and are not repeated if they fail.
Events are read from the API as a client does, with the API key on standard input or in
--key-file. If the API stops responding, the command waits for it and goes on with the
next event.
  printf '%s\\n' "$KEY" | impact webhook listen --forward-to http://localhost:3000/impact-events`;

const httpUrl = z.url({ protocol: /^https?$/u });

/** The URL of an interface that keys are sent to, without slashes at its end, because paths are appended. */
const parseApiUrl = parserOf(
  httpUrl.refine(mayReceiveKeys).transform((given) => given.replace(/\/+$/u, "")),
  "an https:// URL, unless its host is localhost or a loopback address",
);

/** @throws CommandError if the file has another content */
const readSigningSecret = async ({ io }: CliContext, path: string): Promise<string> => {
  const secret = await readSecret(io, path);
  if (!/^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/u.test(secret)) {
    throw new CommandError(
      EXIT.usage,
      "--secret-file: must be a secret, whsec_ and the Base64 of 24 to 64 bytes.",
    );
  }
  return secret;
};

const listen = async (context: CliContext, options: ListenOptions): Promise<void> => {
  const { io, clock } = context;
  const { forwardTo, secretFile, limit = Infinity } = options;
  const secret =
    secretFile === undefined ? newSecret() : await readSigningSecret(context, secretFile);
  const read = await openFeed(context, options);
  let last: string | null = null;
  for (let page: Page | null = null; page === null || page.has_more;) {
    page = await read(last);
    last = page.events.at(-1)?.id ?? last;
  }
  const signedWith =
    secretFile === undefined ? `the new secret ${secret}` : `the secret in ${secretFile}`;
  say(io, `Ready. Requests are signed with ${signedWith} and sent to ${forwardTo}.`);
  let remaining = limit;
  let isWaiting = false;
  while (remaining > 0) {
    try {
      const { events, has_more: hasMore } = await read(last);
      isWaiting = false;
      for (const event of events.slice(0, remaining)) {
        const outcome = await forward(event, forwardTo, secret, clock.now());
        printText(io, `${event.timestamp} ${event.type} ${event.id}: ${outcome}`);
        last = event.id;
        remaining -= 1;
      }
      if (hasMore) {
        continue;
      }
    } catch (error) {
      if (exitCodeOf(error) !== EXIT.unreachable) {
        throw error;
      }
      if (!isWaiting) {
        say(io, `Events cannot be read; trying again every second. ${describeError(error)}`);
      }
      isWaiting = true;
    }
    if (remaining > 0) {
      await sleep(POLL_INTERVAL_MS);
    }
  }
};

export const addListenCommand = (webhook: Command, context: CliContext): void => {
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
    .option(
      "--secret-file <file>",
      "file with the secret of signatures, readable by its owner only (default: a new secret)",
      parsePath,
    )
    .option("--limit <n>", "number of events after which it ends", parseCount)
    .addHelpText("after", LISTEN_HELP)
    .action((options) => listen(context, options));
};
