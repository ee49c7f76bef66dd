import { basename } from "node:path";
import { counted } from "../../../domain/counted.ts";
import { DomainError } from "../../../domain/errors.ts";
import type { CharityImport } from "../../../services/charities/importCharities.ts";
import { importCharities } from "../../../services/charities/importCharities.ts";
import type { Context } from "../../context.ts";
import { openTextFile } from "../../input/openTextFile.ts";
import { unreadableFileError } from "../../input/unreadableFileError.ts";
import { say } from "../../io.ts";
import { openChange } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import { createProgressBar } from "../../output/createProgressBar.ts";
import { printJson, printTable } from "../../output/print.ts";

/** Further bad lines are only counted, so that a wrong file does not fill the screen. */
const BAD_LINES_SHOWN = 20;

export type ImportOptions = ChangeOptions & {
  readonly extracted?: string;
};

const importFile = async (
  context: Context,
  path: string,
  { extracted, ...operator }: ImportOptions,
): Promise<CharityImport & { readonly file: string }> => {
  const { io } = context;
  const deps = await openChange(context, operator);
  const name = basename(path);
  const bar = createProgressBar(io);
  try {
    bar.update(null, `${name}: reading the file`);
    const file = await openTextFile(path).catch((error: unknown) => {
      throw unreadableFileError(path, error);
    });
    let bytesRead = 0;
    let bad = 0;
    const result = await importCharities(
      deps,
      {
        sha256: await file.sha256(),
        extractedOn: extracted ?? file.modifiedAt.toISOString().slice(0, 10),
      },
      file.lines((bytes) => {
        bytesRead = bytes;
      }),
      {
        onBadLine: (line, problem) => {
          bad += 1;
          if (bad <= BAD_LINES_SHOWN) {
            bar.clear();
            say(io, `${name}:${line} skipped: ${problem}`);
          }
        },
        onProgress: (lines) =>
          bar.update(bytesRead / file.sizeBytes, `${name}: ${counted(lines, "line")}`),
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

export const importCharityFiles = async (
  context: Context,
  paths: readonly string[],
  options: ImportOptions,
): Promise<void> => {
  const results: Awaited<ReturnType<typeof importFile>>[] = [];
  for (const path of paths) {
    results.push(await importFile(context, path, options));
  }
  if (options.json) {
    printJson(
      context.io,
      results.map(({ linesDoneBefore, ...counts }) => ({
        ...counts,
        lines_done_before: linesDoneBefore,
      })),
    );
    return;
  }
  printTable(
    context.io,
    ["file", "added", "changed", "same", "older", "skipped", "lines done before"],
    results.map(({ file, added, changed, same, older, bad, linesDoneBefore }) => [
      file,
      added,
      changed,
      same,
      older,
      bad,
      linesDoneBefore,
    ]),
  );
};
