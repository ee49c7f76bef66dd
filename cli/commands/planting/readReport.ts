import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { listIssues, messageOfIssue } from "../../../domain/describeIssues.ts";
import { plantingReport } from "../../../domain/planting/fact.ts";
import type { PlantingReport } from "../../../domain/planting/fact.ts";
import type { CliContext } from "../../context.ts";
import { CommandError, describeError, EXIT } from "../../exitCodes.ts";
import { unreadableFileError } from "../../input/unreadableFileError.ts";

const parseReport = (json: string): PlantingReport => {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (error) {
    throw new CommandError(EXIT.failed, `The file is not valid JSON: ${describeError(error)}.`, {
      cause: error,
    });
  }
  const result = plantingReport.safeParse(value, { error: messageOfIssue });
  if (!result.success) {
    const lines = listIssues(result.error.issues, "field").map((line) => `\n  ${line}`);
    throw new CommandError(
      EXIT.failed,
      `Nothing was recorded, because the file is invalid:${lines.join("")}`,
    );
  }
  return result.data;
};

/** @param file a path, or `-` for standard input */
export const readReport = async (
  { stdin }: CliContext["io"],
  file: string,
): Promise<PlantingReport> => {
  let json: string;
  try {
    json = file === "-" ? await text(stdin) : await readFile(file, "utf8");
  } catch (error) {
    throw unreadableFileError(file, error);
  }
  return parseReport(json);
};
