import type { CommonQueryMethods } from "slonik";
import { counted } from "../../../domain/counted.ts";
import { getRecordId } from "../../../services/getRecordId.ts";
import { clearCachedResponses } from "../../../services/planting/evidence/clearCachedResponses.ts";
import type { CachedResponses } from "../../../services/planting/evidence/clearCachedResponses.ts";
import type { CliContext } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { openChange } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { printJson, printText } from "../../output/print.ts";
import type { RecordOwnerOptions } from "../../accountOptions.ts";

export type ClearOptions = ChangeOptions &
  RecordOwnerOptions & {
    readonly tree?: string;
    readonly summary?: true;
    readonly all?: true;
  };

const requireOneSelection = ({ tree, summary, all }: ClearOptions): void => {
  if ([tree, summary, all].filter((option) => option !== undefined).length !== 1) {
    throw new CommandError(EXIT.usage, "Pass one of --tree, --summary and --all.");
  }
};

const selectResponses = async (
  db: CommonQueryMethods,
  { tree, org, all }: ClearOptions,
): Promise<CachedResponses> => {
  return tree === undefined
    ? { kind: all ? "all" : "summary" }
    : { kind: "tree", registrationId: await getRecordId(db, "registration", tree, org ?? null) };
};

export const clearCache = async (context: CliContext, options: ClearOptions): Promise<void> => {
  const { io } = context;
  requireOneSelection(options);
  const deps = await openChange(context, options);
  const dropped = await clearCachedResponses(deps, await selectResponses(deps.db, options));
  if (options.json) {
    printJson(io, { dropped });
  } else {
    printText(io, `Deleted ${counted(dropped, "cached response")}`);
  }
};
