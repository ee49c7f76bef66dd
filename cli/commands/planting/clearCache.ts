import { clearCachedResponses } from "../../../services/planting/clearCachedResponses.ts";
import type { CachedResponses } from "../../../services/planting/clearCachedResponses.ts";
import type { Context } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { actorOf } from "../../operator.ts";
import type { OperatorOptions } from "../../operator.ts";
import { printJson } from "../../output/print.ts";

export type ClearOptions = OperatorOptions & {
  readonly tree?: string;
  readonly summary?: true;
  readonly all?: true;
  readonly json?: true;
};

const selectResponses = ({ tree, summary, all }: ClearOptions): CachedResponses => {
  if ([tree, summary, all].filter((option) => option !== undefined).length !== 1) {
    throw new CommandError(EXIT.usage, "Pass one of --tree, --summary and --all.");
  }
  return tree === undefined
    ? { kind: all ? "all" : "summary" }
    : { kind: "tree", registrationId: tree };
};

export const clearCache = async (
  { io, connections, clock }: Context,
  options: ClearOptions,
): Promise<void> => {
  const responses = selectResponses(options);
  const dropped = await clearCachedResponses(
    { db: await connections.database(), clock, actor: actorOf(options) },
    responses,
  );
  if (options.json) {
    printJson(io, { dropped });
  } else {
    io.stdout.write(`Deleted ${dropped} cached ${dropped === 1 ? "response" : "responses"}\n`);
  }
};
