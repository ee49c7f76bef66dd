import { resolve } from "node:path";
import type { Account } from "../../../db/accounts/accounts.ts";
import type { Mode } from "../../../domain/accounts/accounts.ts";
import type { LineKind } from "../../../domain/history/importedRecords.ts";
import type { ImportLine } from "../../../services/history/importLine.ts";
import type { CliContext } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import type { Input } from "../../input/openInput.ts";
import { openInput } from "../../input/openInput.ts";
import { readHistory } from "./readHistory.ts";

/** The files of a command, read one after the other. */
export type History = {
  readonly lines: (account: Account, mode: Mode) => AsyncGenerator<ImportLine, void, void>;
  /** Returns the share of the files that was read; null if one is a pipe. */
  readonly shareRead: () => number | null;
};

/** What the options say of lines that do not say it themselves. */
type Defaults = { readonly kind?: LineKind; readonly source?: string };

const shareOf = (inputs: readonly Input[]): number | null => {
  let read = 0;
  let size = 0;
  for (const { sizeBytes, bytesRead } of inputs) {
    if (sizeBytes === null) {
      return null;
    }
    read += bytesRead();
    size += sizeBytes;
  }
  return size === 0 ? 1 : read / size;
};

async function* readAll(
  inputs: readonly Input[],
  { fractionalCounting, type }: Account,
  mode: Mode,
  { kind, source }: Defaults,
  { clock }: CliContext,
): AsyncGenerator<ImportLine, void, void> {
  for (const input of inputs) {
    yield* readHistory(input, {
      now: clock.now(),
      fractionalCounting,
      storeMode: type === "store" ? mode : null,
      kind: kind ?? null,
      source: source ?? null,
    });
  }
}

/**
 * Finds all files before the first is read, so that a misspelt name changes nothing.
 * @throws CommandError also for a file that is given twice: its lines without id and key would be separate records
 */
export const openHistory = async (
  context: CliContext,
  paths: readonly string[],
  defaults: Defaults,
): Promise<History> => {
  const inputs: Input[] = [];
  const repeated = paths.find(
    (path, index) => paths.findIndex((earlier) => resolve(earlier) === resolve(path)) < index,
  );
  if (repeated !== undefined) {
    throw new CommandError(EXIT.usage, `${repeated} is given twice. Give each file once.`);
  }
  for (const path of paths) {
    inputs.push(await openInput(path, context.io));
  }
  return {
    lines: (account, mode) => readAll(inputs, account, mode, defaults, context),
    shareRead: () => shareOf(inputs),
  };
};
