import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { plantingReport } from "../../../domain/planting/fact.ts";
import type { PlantingReport } from "../../../domain/planting/fact.ts";
import { wakePlantingOrder } from "../../../program/wakePlantingOrder.ts";
import { reportPlanting } from "../../../services/planting/reportPlanting.ts";
import type { Context } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { unreadableFileError } from "../../input/unreadableFileError.ts";
import { say } from "../../io.ts";
import { actorOf } from "../../operator.ts";
import type { OperatorOptions } from "../../operator.ts";
import { printJson, printTable } from "../../output/print.ts";

const WAKE_TIMEOUT_MS = 5000;

const parseReport = (json: string): PlantingReport => {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (error) {
    throw new CommandError(EXIT.failed, `The file is not valid JSON: ${String(error)}`, {
      cause: error,
    });
  }
  const result = plantingReport.safeParse(value);
  if (!result.success) {
    const lines = result.error.issues.map(({ path, message }) => `  ${path.join(".")}: ${message}`);
    throw new CommandError(
      EXIT.failed,
      `Nothing was recorded, because the file is invalid:\n${lines.join("\n")}`,
    );
  }
  return result.data;
};

/** Wakes the order's workflow. Without Temporal, the workflow finds the facts at its next poll. */
const wake = async ({ io, connections }: Context, orderId: number): Promise<void> => {
  const temporal = await connections.temporal().catch(() => null);
  if (temporal === null || !(await wakePlantingOrder(temporal, orderId, WAKE_TIMEOUT_MS))) {
    say(io, "The order's workflow could not be notified; it finds the facts at its next poll.");
  }
};

const readReport = async ({ stdin }: Context["io"], file: string): Promise<string> => {
  try {
    return file === "-" ? await text(stdin) : await readFile(file, "utf8");
  } catch (error) {
    throw unreadableFileError(file, error);
  }
};

/** @param file a path, or `-` for standard input */
export const recordReport = async (
  context: Context,
  file: string,
  { json, ...operator }: OperatorOptions & { readonly json?: true },
): Promise<void> => {
  const { io, connections, clock } = context;
  const report = parseReport(await readReport(io, file));
  const recorded = await reportPlanting(
    {
      db: await connections.database(),
      clock,
      actor: actorOf(operator),
      wakeOrder: (orderId) => wake(context, orderId),
    },
    report,
    "operator",
  );
  if (json) {
    printJson(io, recorded);
  } else {
    printTable(
      io,
      ["stage", "outcome", "reason"],
      recorded.map(({ stage, outcome, reason }) => [stage, outcome, reason]),
    );
  }
  if (recorded.some(({ outcome }) => outcome === "contradiction")) {
    throw new CommandError(
      EXIT.failed,
      "Some facts contradict recorded ones. See `impact evidence order show`.",
    );
  }
};
