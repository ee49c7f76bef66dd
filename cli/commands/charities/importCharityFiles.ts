import { stat } from "node:fs/promises";
import { basename } from "node:path";
import { counted } from "../../../domain/counted.ts";
import { DomainError } from "../../../domain/errors.ts";
import type { CharityImport } from "../../../services/charities/importCharities.ts";
import { importCharities } from "../../../services/charities/importCharities.ts";
import type { CliContext } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { openInput } from "../../input/openInput.ts";
import { readTextLines } from "../../input/readTextLines.ts";
import { sha256Of } from "../../input/sha256Of.ts";
import { say } from "../../io.ts";
import { openChange } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { createProgressBar } from "../../output/createProgressBar.ts";
import { printList } from "../../output/print.ts";
import type { Columns } from "../../output/print.ts";
import { requireNoneSkipped } from "./requireNoneSkipped.ts";

/** Further bad lines are only counted, so that a wrong file does not fill the screen. */
const BAD_LINES_SHOWN = 20;

export type ImportOptions = ChangeOptions & {
  readonly extracted?: string;
};

const importFile = async (
  context: CliContext,
  path: string,
  { extracted, ...operator }: ImportOptions,
): Promise<CharityImport & { readonly file: string }> => {
  const { io } = context;
  const deps = await openChange(context, operator);
  const name = basename(path);
  const bar = createProgressBar(io);
  try {
    bar.update(null, `${name}: reading the file`);
    const input = await openInput(path, io);
    const { sizeBytes } = input;
    if (sizeBytes === null) {
      throw new CommandError(
        EXIT.usage,
        `${input.name} cannot be imported: pass a file, because it is read twice.`,
      );
    }
    const { mtime } = await stat(path);
    let bad = 0;
    const result = await importCharities(
      deps,
      {
        sha256: await sha256Of(path),
        extractedOn: extracted ?? mtime.toISOString().slice(0, 10),
      },
      readTextLines(input.bytes),
      {
        onBadLine: (line, problem) => {
          bad += 1;
          if (bad <= BAD_LINES_SHOWN) {
            bar.clear();
            say(io, `${name}:${line} skipped: ${problem}`);
          }
        },
        onProgress: (lines) =>
          bar.update(input.bytesRead() / sizeBytes, `${name}: ${counted(lines, "line")}`),
      },
    );
    return { file: name, ...result };
  } catch (error) {
    throw error instanceof DomainError
      ? new DomainError(error.code, `${name} cannot be imported: ${error.message}`, {
          cause: error,
        })
      : error;
  } finally {
    bar.clear();
  }
};

type FileImport = Awaited<ReturnType<typeof importFile>>;

const presentImport = ({ linesDoneBefore, ...counts }: FileImport) => ({
  ...counts,
  lines_done_before: linesDoneBefore,
});

const IMPORT_COLUMNS: Columns<FileImport> = {
  file: ({ file }) => file,
  added: ({ added }) => added,
  changed: ({ changed }) => changed,
  same: ({ same }) => same,
  older: ({ older }) => older,
  skipped: ({ bad }) => bad,
  "lines done before": ({ linesDoneBefore }) => linesDoneBefore,
};

export const importCharityFiles = async (
  context: CliContext,
  paths: readonly string[],
  options: ImportOptions,
): Promise<void> => {
  const imports: FileImport[] = [];
  try {
    for (const path of paths) {
      imports.push(await importFile(context, path, options));
    }
  } finally {
    if (imports.length > 0) {
      printList({ io: context.io, json: options.json }, imports, presentImport, IMPORT_COLUMNS);
    }
  }
  requireNoneSkipped(imports.reduce((sum, { bad }) => sum + bad, 0));
};
