import type { Command } from "commander";
import { KEY_PREFIX } from "../../domain/accounts/apiKeys.ts";
import { parseCount, parseUrl } from "../arguments.ts";
import type { Context } from "../context.ts";
import { CommandError, describeError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import { printText } from "../output/print.ts";

const TIMEOUT_MS = 15_000;

type PlantOptions = { readonly key: string; readonly count: number; readonly url?: string };

const findUrl = async ({ connections }: Context): Promise<string> => {
  const url = (await connections.running())?.apiUrl ?? connections.config().PUBLIC_BASE_URL;
  if (url === undefined) {
    throw new CommandError(
      EXIT.unreachable,
      "PUBLIC_BASE_URL is not set, and no `npm start` is running with this data folder. Run `npm start`, or name the API with --url.",
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
  const endpoint = `${url ?? (await findUrl(context))}/plant/trees`;
  if (key.startsWith(KEY_PREFIX.organization.live)) {
    say(io, "Warning: this is a production key, so the registration is billed.");
  }
  let response: Response;
  let body: string;
  try {
    response = await fetch(endpoint, {
      method: "POST",
      headers: { Authorization: key, "Content-Type": "application/json" },
      body: JSON.stringify({ count }),
      redirect: "error",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    body = await response.text();
  } catch (error) {
    throw new CommandError(
      EXIT.unreachable,
      `No response from ${endpoint}: ${describeError(error)}. Check that the API is running.`,
      { cause: error },
    );
  }
  say(io, `POST ${endpoint}: ${response.status} ${response.statusText}`);
  printText(io, formatBody(body));
  if (!response.ok) {
    throw new CommandError(EXIT.failed, "The API rejected the request.");
  }
};

export const addTryCommands = (attempt: Command, context: Context): void => {
  attempt
    .command("plant")
    .description("Register trees and print the response")
    .requiredOption("--key <key>", "API key; test keys are never billed")
    .option("--count <n>", "number of trees", parseCount, 1)
    .option(
      "--url <url>",
      "base URL of the standalone interface (default: the running `npm start`)",
      parseUrl,
    )
    .action((options: PlantOptions) => plant(context, options));
};
