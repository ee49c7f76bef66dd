import { setTimeout as sleep } from "node:timers/promises";
import { Option } from "commander";
import type { Command } from "commander";
import { z } from "zod";
import type { Mode } from "../../modules/records/owner.rules.ts";
import { parseEventId, presentEvent } from "../../modules/events/events.rules.ts";
import { WEBHOOK_TYPES_OF } from "../../modules/events/webhooks.rules.ts";
import { mayReceiveKeys } from "../../runtime/loopback.rules.ts";
import { getOrganization } from "../../modules/accounts/getAccount.ts";
import { readFeed } from "../../modules/feed/readFeed.ts";
import { newSecret, signWebhook } from "../../modules/events/signWebhook.ts";
import { namesFrom, parseCount, parseId, parseMode, parsePath, parserOf } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT, describeError, exitCodeOf } from "../exitCodes.ts";
import { readSecret } from "../input/readSecret.ts";
import { say } from "../io.ts";
import type { Io } from "../io.ts";
import { printText } from "../output/print.ts";

const TYPES = WEBHOOK_TYPES_OF.organization;
const PAGE_EVENTS = 1000;
const POLL_INTERVAL_MS = 1000;
const TIMEOUT_MS = 15_000;

const httpUrl = z.url({ protocol: /^https?$/u });

type ListenOptions = {
  readonly forwardTo: string;
  readonly keyFile?: string;
  readonly url?: string;
  readonly org?: string;
  readonly mode: Mode;
  readonly types?: readonly (typeof TYPES)[number][];
  readonly secretFile?: string;
  readonly limit?: number;
};

const event = z.object({
  id: z.string(),
  type: z.enum(TYPES),
  timestamp: z.iso.datetime(),
  data: z.record(z.string(), z.unknown()),
});
const page = z.object({ events: z.array(event), has_more: z.boolean() });
type Page = z.output<typeof page>;

/** Reads what follows an event, or from the beginning. */
type ReadPage = (startingAfter: string | null) => Promise<Page>;

/** Parses JSON; what is not JSON fails the schema that follows. */
const asJson = z.string().transform((text): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
});

/** Whether the API may respond to the same request later. */
const isTemporary = (status: number): boolean => status === 429 || status >= 500;

/** @throws CommandError with the exit code `unreachable` if there is no response */
const fetchText = async (
  url: string,
  query: URLSearchParams,
  key: string,
): Promise<{ readonly status: number; readonly body: string }> => {
  try {
    const response = await fetch(`${url}?${query.toString()}`, {
      headers: { Authorization: key },
      redirect: "error",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    return { status: response.status, body: await response.text() };
  } catch (error) {
    throw new CommandError(
      EXIT.unreachable,
      `No response from ${url}: ${describeError(error)}. Check that the API is running.`,
      { cause: error },
    );
  }
};

/** @throws CommandError with the exit code `unreachable` if the API cannot respond now */
const readFromApi = async (
  { connections, io }: CliContext,
  { keyFile, url: base, types = TYPES }: ListenOptions,
): Promise<ReadPage> => {
  const key = await readSecret(io, keyFile);
  if (key === "") {
    throw new CommandError(
      EXIT.usage,
      "Give the API key on standard input or in a file with --key-file, or pass --org.",
    );
  }
  const address = base ?? (await connections.publicBaseUrl());
  if (!mayReceiveKeys(address)) {
    throw new CommandError(
      EXIT.usage,
      `The key would be sent to ${address} in plain text. Pass --url with an https:// URL.`,
    );
  }
  const url = `${address}/events`;
  return async (startingAfter) => {
    const query = new URLSearchParams({ types: types.join(","), limit: String(PAGE_EVENTS) });
    if (startingAfter !== null) {
      query.set("starting_after", startingAfter);
    }
    const { status, body } = await fetchText(url, query, key);
    const found = asJson.pipe(page).safeParse(body);
    if (status !== 200 || !found.success) {
      const { data } = asJson.pipe(z.object({ error: z.string() })).safeParse(body);
      throw new CommandError(
        isTemporary(status) ? EXIT.unreachable : EXIT.failed,
        `${url}: ${data?.error ?? `the response ${status} is not the API's. Check --url.`}`,
      );
    }
    return found.data;
  };
};

const readFromDatabase = async (
  { connections, clock }: CliContext,
  { mode, types = TYPES }: ListenOptions,
  org: string,
): Promise<ReadPage> => {
  const db = await connections.database();
  await getOrganization(db, org);
  return async (startingAfter) => {
    const feed = await readFeed(
      { db, clock },
      { accountId: org, mode },
      { types, startingAfter, limit: PAGE_EVENTS },
    );
    return page.parse({ events: feed.events.map(presentEvent), has_more: feed.hasMore });
  };
};

/** Reads a page, and retries every second while the API or the database cannot be reached. */
const keepReading =
  (io: Io, read: ReadPage): ReadPage =>
  async (startingAfter) => {
    for (let isSaid = false; ; isSaid = true) {
      try {
        return await read(startingAfter);
      } catch (error) {
        if (exitCodeOf(error) !== EXIT.unreachable) {
          throw error;
        }
        if (!isSaid) {
          say(io, `Events cannot be read; trying again every second. ${describeError(error)}`);
        }
      }
      await sleep(POLL_INTERVAL_MS);
    }
  };

/** Returns the id of the newest event, or null if there is none. */
const findNewest = async (read: ReadPage): Promise<string | null> => {
  let newest: string | null = null;
  for (;;) {
    const { events, has_more: hasMore }: Page = await read(newest);
    newest = events.at(-1)?.id ?? newest;
    if (!hasMore) {
      return newest;
    }
  }
};

/** Sends an event once. Returns the status, or why there is none. */
const forward = async (
  { id, type, timestamp, data }: Page["events"][number],
  { forwardTo }: ListenOptions,
  secret: string,
  now: Date,
): Promise<string> => {
  const position = parseEventId(id);
  if (position === null) {
    throw new TypeError(`The feed has an event with the id ${id}.`);
  }
  const { headers, body } = signWebhook(
    { ...position, type, occurredAt: new Date(timestamp), data },
    [secret],
    now,
  );
  try {
    const { status } = await fetch(forwardTo, {
      method: "POST",
      headers,
      body,
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    return String(status);
  } catch (error) {
    return describeError(error);
  }
};

/** @throws CommandError if the file has another content */
const readSigningSecret = async (io: Io, path: string): Promise<string> => {
  const secret = await readSecret(io, path);
  if (!/^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/u.test(secret)) {
    throw new CommandError(
      EXIT.usage,
      "--secret-file: must be a secret, whsec_ and the Base64 of 24 to 64 bytes.",
    );
  }
  return secret;
};

const LISTEN_HELP = `
Requests are signed as those of webhook endpoints are, and are not repeated if they fail.
Events are read from the API as a client does, with the API key on standard input or in
--key-file; with --org, from the database. If one of them stops responding, the command
waits for it and goes on with the next event.
  printf '%s\\n' "$KEY" | impact webhook listen --forward-to http://localhost:3000/impact-events`;

/** The URL of an interface that keys are sent to, without slashes at its end, because paths are appended. */
const parseApiUrl = parserOf(
  httpUrl.refine(mayReceiveKeys).transform((given) => given.replace(/\/+$/u, "")),
  "an https:// URL, unless its host is localhost or a loopback address",
);

const parseUrl = parserOf(httpUrl, "an http:// or https:// URL");

/** Types of events that `webhook listen` sends. */
const parseListenTypes = namesFrom(TYPES);

export const addListenCommand = (webhook: Command, context: CliContext): void => {
  webhook
    .command("listen")
    .description("Send new events to a server on a developer's machine, until interrupted")
    .requiredOption("--forward-to <url>", "where events are sent", parseUrl)
    .addOption(
      new Option(
        "--key-file <file>",
        "file with an API key of the organization, readable by its owner only (default: standard input)",
      )
        .argParser(parsePath)
        .conflicts("org"),
    )
    .option(
      "--url <url>",
      "base URL of the standalone interface (default: PUBLIC_BASE_URL or the running `npm start`)",
      parseApiUrl,
    )
    .option("--org <id>", "id of the organization, to read the database", parseId)
    .option("--mode <live|test>", "mode of the events, with --org", parseMode, "test")
    .option("--types <list>", "only these types, with commas between them", parseListenTypes)
    .option(
      "--secret-file <file>",
      "file with the secret of signatures, readable by its owner only (default: a new secret)",
      parsePath,
    )
    .option("--limit <n>", "number of events after which it ends", parseCount)
    .addHelpText("after", LISTEN_HELP)
    .action(async (options: ListenOptions) => {
      const { io, clock } = context;
      const { org, secretFile } = options;
      const secret =
        secretFile === undefined ? newSecret() : await readSigningSecret(io, secretFile);
      const read = await (org === undefined
        ? readFromApi(context, options)
        : readFromDatabase(context, options, org));
      let last = await findNewest(read);
      const signedWith =
        secretFile === undefined ? `the new secret ${secret}` : `the secret in ${secretFile}`;
      say(io, `Ready. Requests are signed with ${signedWith} and sent to ${options.forwardTo}.`);
      const readNext = keepReading(io, read);
      let remaining = options.limit ?? Infinity;
      while (remaining > 0) {
        const { events, has_more: hasMore } = await readNext(last);
        for (const each of events.slice(0, remaining)) {
          const outcome = await forward(each, options, secret, clock.now());
          printText(io, `${each.timestamp} ${each.type} ${each.id}: ${outcome}`);
          last = each.id;
          remaining -= 1;
        }
        if (!hasMore && remaining > 0) {
          await sleep(POLL_INTERVAL_MS);
        }
      }
    });
};
