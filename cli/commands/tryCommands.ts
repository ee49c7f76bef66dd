import type { Command } from "commander";
import { KEY_PREFIX } from "../../domain/accounts/apiKeys.ts";
import { parseCount, parseUrl } from "../arguments.ts";
import type { Context } from "../context.ts";
import { CommandError, describeError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";

const ANSWER_WITHIN_MS = 15_000;

type PlantOptions = { readonly key: string; readonly count: number; readonly url?: string };

const findUrl = async ({ connections }: Context): Promise<string> => {
  const url = (await connections.running())?.apiUrl ?? connections.config().PUBLIC_BASE_URL;
  if (url === undefined) {
    throw new CommandError(
      EXIT.unreachable,
      "No `npm start` is running with this data folder and PUBLIC_BASE_URL is not set: name the API with --url.",
    );
  }
  return url;
};

const formatBody = (body: string): string => {
  try {
    return JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    return body;
  }
};

const plant = async (context: Context, { key, count, url }: PlantOptions): Promise<void> => {
  const { io } = context;
  const address = `${url ?? (await findUrl(context))}/plant/trees`;
  if (key.startsWith(KEY_PREFIX.organization.live)) {
    say(io, "This is a production key: the registration counts and is billed.");
  }
  let answer: Response;
  let body: string;
  try {
    answer = await fetch(address, {
      method: "POST",
      headers: { Authorization: key, "Content-Type": "application/json" },
      body: JSON.stringify({ count }),
      redirect: "error",
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    });
    body = await answer.text();
  } catch (error) {
    throw new CommandError(
      EXIT.unreachable,
      `No answer from ${address}: ${describeError(error)}.`,
      { cause: error },
    );
  }
  say(io, `POST ${address}: ${answer.status} ${answer.statusText}`);
  io.stdout.write(`${formatBody(body)}\n`);
  if (!answer.ok) {
    throw new CommandError(EXIT.failed, "The API refused the request.");
  }
};

export const addTryCommands = (program: Command, context: Context): void => {
  const attempt = program.command("try").description("requests to the API, as a client makes them");
  attempt
    .command("plant")
    .description("register trees and print the answer")
    .requiredOption("--key <key>", "an API key; a test key costs nothing")
    .option("--count <n>", "number of trees", parseCount, 1)
    .option("--url <url>", "the standalone API; the running `npm start`'s by default", parseUrl)
    .action((options: PlantOptions) => plant(context, options));
};
